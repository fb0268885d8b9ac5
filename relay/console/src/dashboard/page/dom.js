// Builds elements. Text is set as text and nothing else: what an event carries is never parsed as HTML.

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// Characters that are not seen, or that turn the text around them: an event's topic must not look like another one. A test in
// relay/console/src/format/escape.rs says what stands here.
const ESCAPED = /[\u{0}-\u{8}\u{b}-\u{1f}\u{7f}-\u{9f}\u{ad}\u{34f}\u{600}-\u{605}\u{61c}\u{6dd}\u{70f}\u{890}-\u{891}\u{8e2}\u{115f}-\u{1160}\u{17b4}-\u{17b5}\u{180b}-\u{180f}\u{200b}-\u{200f}\u{2028}-\u{202e}\u{2060}-\u{206f}\u{2800}\u{3164}\u{d800}-\u{dfff}\u{fdd0}-\u{fdef}\u{fe00}-\u{fe0f}\u{feff}\u{ffa0}\u{fff0}-\u{fffc}\u{fffe}-\u{ffff}\u{110bd}\u{110cd}\u{13430}-\u{1343f}\u{1bca0}-\u{1bca3}\u{1d159}\u{1d173}-\u{1d17a}\u{1fffe}-\u{1ffff}\u{2fffe}-\u{2ffff}\u{3fffe}-\u{3ffff}\u{4fffe}-\u{4ffff}\u{5fffe}-\u{5ffff}\u{6fffe}-\u{6ffff}\u{7fffe}-\u{7ffff}\u{8fffe}-\u{8ffff}\u{9fffe}-\u{9ffff}\u{afffe}-\u{affff}\u{bfffe}-\u{bffff}\u{cfffe}-\u{cffff}\u{dfffe}-\u{e0fff}\u{efffe}-\u{effff}\u{ffffe}-\u{fffff}\u{10fffe}-\u{10ffff}]/gu;

export function visible(text) {
  return text.replace(ESCAPED, (character) => `\\u{${character.codePointAt(0).toString(16)}}`);
}

// Text that somebody else wrote. A line may end behind its punctuation, rather than inside a word.
export function raw(text, attributes = {}) {
  if (text === null || text === undefined) return h('span', { class: 'none' }, '–');
  const [first, ...parts] = visible(text).split(/(?<=[./:_-])(?=[^./:_-])/);
  return h('bdi', { class: 'raw', ...attributes }, first, parts.map((part) => [h('wbr'), part]));
}

// A column without a value in any row is left out: its room is for the others.
export function table(columns, rows, { empty, label }) {
  if (rows.length === 0) return h('p', { class: 'empty' }, empty);
  const filled = columns.map((column) => ({ ...column, cells: rows.map((row) => column.cell(row)) }))
    .filter(({ cells }) => cells.some((cell) => cell !== ''));
  return h('div', { class: 'table' }, h('table', { 'aria-label': label },
    h('thead', {}, h('tr', {}, filled.map((column) => h('th', { scope: 'col', class: column.class }, column.title)))),
    h('tbody', {}, rows.map((_, index) => h('tr', {}, filled.map(({ cells, class: name, title }) =>
      h('td', { class: `${name ?? ''} ${cells[index] === '' ? 'blank' : ''}`, 'data-label': title }, h('div', {}, cells[index]))))))));
}

export function show(container, ...children) {
  container.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
}
