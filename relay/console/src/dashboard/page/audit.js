// Who has replayed or released what.
import { get } from './api.js';
import { h, raw, show, table } from './dom.js';
import { count } from './format.js';
import { when } from './events.js';

const filter = (row) => row.filter.id ? h('a', { href: `#/events/${encodeURIComponent(row.filter.id)}`, class: 'id' }, row.filter.id)
  : Object.entries(row.filter).map(([name, value]) => h('span', { class: 'pair' }, `${name.replace('_', ' ')} `, raw(String(value))));

export async function audit(container, _, signal) {
  const page = await get('audit', {}, signal);
  show(container, h('h1', {}, 'Audit'), h('p', { class: 'lead' }, 'Replays and releases, whoever made them and by whatever program.'), table([
    { title: 'When', cell: (row) => when(row.at) },
    { title: 'Action', cell: (row) => row.action },
    { title: 'Events', class: 'number', cell: (row) => count(row.events) },
    { title: 'Who', cell: (row) => raw(row.who) },
    { title: 'Role', cell: (row) => raw(row.role) },
    { title: 'Program', cell: (row) => raw(row.program) },
    { title: 'Which', class: 'wide', cell: filter },
  ], page.rows, { empty: 'Nobody has replayed or released anything.', label: 'Audit' }));
}
