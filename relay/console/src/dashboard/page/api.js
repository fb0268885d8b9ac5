// Asks the relay. Addresses are relative, so that the page works under any path a proxy gives it.

export const NOBODY = { role: null, name: null, csrf: null, database: null, instance: null };
export const session = { ...NOBODY };

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function answer(response) {
  const body = await response.json().catch((error) => {
    if (response.ok) throw error; // cut off, or not waited for any more
    return {};
  });
  if (!response.ok) throw new Refused(response.status, body.error ?? `The relay answered ${response.status}.`);
  return body;
}

export async function get(path, parameters = {}, signal) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== ''));
  const response = await fetch(`api/${path}${query.size > 0 ? `?${query}` : ''}`, { signal, cache: 'no-store' });
  const body = await answer(response);
  signal?.throwIfAborted(); // another page is shown by now
  return body;
}

export async function post(path, body) {
  const headers = { 'content-type': 'application/json', 'x-outbox-csrf': session.csrf ?? '' };
  return answer(await fetch(`api/${path}`, { method: 'POST', headers, body: JSON.stringify(body) }));
}

export async function learn() {
  Object.assign(session, NOBODY, await get('session'));
}
