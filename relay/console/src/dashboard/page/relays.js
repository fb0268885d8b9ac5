// Which relays are connected, and how the slot fares.
import { get } from './api.js';
import { h, raw, show, table } from './dom.js';
import { bytes } from './format.js';
import { when } from './events.js';

export async function relays(container, _, signal) {
  const page = await get('relays', {}, signal);
  const columns = [
    { title: 'Connection', cell: (row) => (row.streams ? h('span', { class: 'badge sent' }, 'streams') : h('span', { class: 'badge' }, row.is_walsender ? 'walsender' : 'SQL')) },
    { title: 'Process', class: 'number', cell: (row) => String(row.pid) },
    { title: 'From', cell: (row) => raw(row.address) },
    { title: 'Role', cell: (row) => raw(row.role) },
    { title: 'Name', cell: (row) => raw(row.name) },
    { title: 'Connected', cell: (row) => (row.since ? when(row.since) : '–') },
    { title: 'State', cell: (row) => raw(row.state) },
  ];
  const slot = page.slot;
  const facts = slot ? [['name', slot.name], ['read', slot.active ? 'by a relay' : 'by nobody'], ['state', slot.wal_status], ['WAL kept', bytes(slot.kept)],
    ['safe for', slot.safe === null ? 'no limit is set' : bytes(slot.safe)], ['not acknowledged', bytes(slot.behind)]] : [];
  show(container, h('h1', {}, 'Relays'), h('p', { class: 'lead' }, 'Sessions of relays with this database. One relay streams; others wait and take over.'),
    table(columns, page.rows, { empty: 'No relay is connected to this database.', label: 'Connections of relays' }),
    page.is_partial && h('p', { class: 'foot' }, 'Addresses and times of other roles’ sessions are hidden from this page’s role; pg_monitor shows them.'),
    h('section', { class: 'card' }, h('h2', {}, 'Replication slot'), slot ? h('dl', {}, facts.map(([name, value]) => [h('dt', {}, name), h('dd', {}, raw(value))]))
      : h('p', { class: 'empty' }, 'There is no slot: no relay is at work.')));
}
