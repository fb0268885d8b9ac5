// Keys that are held back: by an event between two attempts, or by one that has failed.
import { get, session } from './api.js';
import { act } from './actions.js';
import { h, raw, show, table } from './dom.js';
import { count } from './format.js';
import { badge, key, when } from './events.js';

export async function keys(container, _, signal) {
  const page = await get('keys', {}, signal);
  const again = () => keys(container, _, signal);
  const columns = [
    { title: 'Key', class: 'mid', cell: key },
    { title: 'Held by', class: 'short', cell: (row) => [badge(row.state), ' ', h('a', { href: `#/events/${row.id}`, class: 'id' }, 'event')] },
    { title: 'Waiting', class: 'number', cell: (row) => count(row.waiting) },
    { title: 'Attempts', class: 'number', cell: (row) => count(row.attempts) },
    { title: 'Next attempt', cell: (row) => (row.state === 'retrying' ? when(row.available_at) : '–') },
    { title: 'Last error', class: 'wide', cell: (row) => raw(row.last_error) },
    session.can_act && { title: 'Action', cell: (row) => row.state !== 'failed' ? '' : h('div', { class: 'buttons' },
      h('button', { onclick: () => act('replay', { ids: [row.id] }, again) }, 'Replay'),
      h('button', { onclick: () => act('release', { ids: [row.id] }, again) }, 'Release')) },
  ].filter(Boolean);
  show(container, h('h1', {}, 'Keys'), h('p', { class: 'lead' }, 'Keys whose later events wait. A retried event holds its key until its verdict; a failed one, with ',
    h('code', {}, 'after_failed = hold'), ', until somebody acts.'),
  session.can_act && h('dl', { class: 'lead' }, h('dt', {}, 'Replay'), h('dd', {}, 'sends the failed event again; those that wait for its key follow.'),
    h('dt', {}, 'Release'), h('dd', {}, 'leaves it failed; those that wait go on without it.')),
  table(columns, page.rows, { empty: 'No key is held.', label: 'Keys held' }),
  page.rows.length > 0 && h('p', { class: 'foot' }, `${count(page.rows.length)} keys${page.is_more ? ', and there are more' : ''}. Waiting is counted among the oldest ${count(page.counted)} pending events.`));
}
