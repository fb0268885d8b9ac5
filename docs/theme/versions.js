// Lets the reader change the version. versions.json lies beside the folders of the versions, where the site is published.
(async () => {
  const root = new URL(typeof path_to_root === "string" ? path_to_root : "", location.href);
  const answer = await fetch(new URL("../versions.json", root)).catch(() => null);
  if (!answer || !answer.ok) return;
  const here = root.pathname.split("/").at(-2);
  const choice = document.createElement("select");
  choice.id = "versions";
  choice.title = "Version";
  for (const version of await answer.json()) choice.add(new Option(version, version, false, version === here));
  choice.addEventListener("change", () => {
    const page = location.pathname.slice(root.pathname.length);
    const there = new URL(`../${choice.value}/`, root);
    fetch(new URL(page, there), { method: "HEAD" }).then((found) => location.assign(found.ok ? new URL(page, there) : there));
  });
  document.querySelector(".right-buttons")?.prepend(choice);
})();
