// Wiring: pages by the address behind #, who is signed in, keys, dark and light.
import { audit } from './audit.js';
import { Refused, learn, session } from './api.js';
import { dialog } from './actions.js';
import { h, raw, show, visible } from './dom.js';
import { event, events } from './events.js';
import { failed } from './failed.js';
import { zone } from './format.js';
import { keys } from './keys.js';
import * as live from './live.js';
import { overview } from './overview.js';
import { relays } from './relays.js';
import * as signin from './signin.js';

const PAGES = [['', 'Overview', overview], ['events', 'Events', events], ['failed', 'Failed', failed], ['keys', 'Keys', keys],
  ['relays', 'Relays', relays], ['audit', 'Audit', audit]];
const main = document.getElementById('main');
let showing = new AbortController();

function theme(next) {
  const root = document.documentElement;
  if (next) {
    root.dataset.theme = next;
    localStorage.setItem('outbox-theme', next);
    document.dispatchEvent(new Event('themechange'));
  }
  return root.dataset.theme ?? (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
}

function tools() {
  const again = () => route();
  const pause = h('button', { id: 'pause', 'aria-pressed': String(live.paused()), 'data-lost': String(live.lost()), title: 'Pause or go on (p)', onclick: () => {
    live.pause(!live.paused());
    tools();
  } }, live.paused() ? 'Paused' : live.lost() ? 'Not connected' : 'Live');
  const dark = theme() === 'dark';
  show(document.getElementById('tools'), pause,
    h('button', { id: 'theme', title: 'Dark or light', 'aria-label': dark ? 'Light colours' : 'Dark colours', onclick: () => {
      theme(dark ? 'light' : 'dark');
      tools();
    } }, dark ? '☀' : '☾'),
    session.name ? h('button', { id: 'signout', title: `Signed in as ${session.name}, ${session.role}`, onclick: () => signin.end(again) }, 'Sign out')
      : !session.closed && session.role && h('button', { id: 'signin', onclick: () => signin.ask(again) }, 'Sign in'));
}

// Every page names the database and the environment in its head, and the time zone at its foot.
function where(title) {
  const { database, instance } = session;
  show(document.getElementById('where'), database && h('b', { title: 'Database' }, raw(database)),
    instance && h('span', { class: 'badge', title: 'Environment' }, raw(instance)));
  const named = Intl.DateTimeFormat().resolvedOptions().timeZone;
  show(document.getElementById('zone'), session.role && `Times are in ${zone()}${named.includes('UTC') ? '' : ` (${named})`}.`);
  document.title = visible([title, database, instance, 'outbox'].filter(Boolean).join(' · '));
}

async function route() {
  showing.abort();
  showing = new AbortController();
  const { signal } = showing;
  const [path, query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  const [name, given] = path.split('/');
  const id = given && decoded(given);
  const page = PAGES.find(([key]) => key === name) ?? PAGES[0];
  show(document.getElementById('nav'), session.role && PAGES.map(([key, title]) =>
    h('a', { href: `#/${key}`, 'aria-current': key === page[0] ? 'page' : null }, title)));
  where(page[1]);
  tools();
  if (!session.role) {
    live.stop();
    return signin.page(main, route);
  }
  if (!live.running()) live.start();
  try {
    if (name === 'events' && id) await event(main, id, signal);
    else await page[2](main, new URLSearchParams(query), signal);
    if (!signal.aborted) main.dataset.shown = location.hash; // for those who wait for it
  } catch (error) {
    if (signal.aborted) return;
    if (error instanceof Refused && error.status === 401) {
      await learn();
      return session.role ? show(main, problem(error)) : route();
    }
    show(main, h('h1', {}, page[1]), problem(error));
  }
}

// What stands in the address may have been typed: a lone % is taken as it is.
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const problem = (error) => h('div', { class: 'card' }, h('p', { class: 'answer' }, error.message),
  h('div', { class: 'buttons' }, h('button', { onclick: () => route() }, 'Try again')));

const KEYS = [['1 … 6', 'the pages'], ['/', 'the first filter'], ['p', 'pause or go on'], ['r', 'load this page again'], ['?', 'this list']];

document.addEventListener('keydown', (press) => {
  if (press.ctrlKey || press.metaKey || press.altKey || press.target.closest('input, textarea, select, dialog')) return;
  const page = PAGES[Number(press.key) - 1];
  if (page) location.hash = `#/${page[0]}`;
  else if (press.key === '/') {
    press.preventDefault();
    document.querySelector('.filters input[name=topic], .filters input')?.focus();
  } else if (press.key === 'p') document.getElementById('pause').click();
  else if (press.key === 'r') route();
  else if (press.key === '?') {
    const element = dialog('Keys', h('dl', {}, KEYS.map(([key, text]) => [h('dt', {}, h('kbd', {}, key)), h('dd', {}, text)])),
      [h('button', { onclick: () => element.close() }, 'Close')]);
  }
});

live.watch(tools);
const kept = localStorage.getItem('outbox-theme');
if (kept === 'dark' || kept === 'light') document.documentElement.dataset.theme = kept;
addEventListener('hashchange', () => {
  route();
  main.focus({ preventScroll: true });
});
try {
  await learn();
  await route();
} catch (error) {
  show(main, problem(error));
}
