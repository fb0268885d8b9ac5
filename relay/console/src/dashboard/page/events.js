// Events with filters; and one event with its life.
import { get, session } from './api.js';
import { offer } from './actions.js';
import { h, raw, show, table, visible } from './dom.js';
import { ago, bytes, count, indented, latency, moment, zone } from './format.js';

const STATES = ['', 'pending', 'retrying', 'scheduled', 'sent', 'failed'];
const FILTERS = [
  ['topic', 'Topic'], ['aggregate_type', 'Key, type'], ['aggregate_id', 'Key, id'], ['correlation_id', 'Correlation id'],
];

export const badge = (state) => h('span', { class: `badge ${state}` }, state);
export const key = (event) => event.aggregate_id === null ? raw(null)
  : [event.aggregate_type !== null && [raw(event.aggregate_type), h('span', { class: 'none' }, ' / ')], raw(event.aggregate_id)];
export const when = (time) => h('time', { datetime: time, title: moment(time) }, ago(time));
const to = (event, text = event.id) => h('a', { href: `#/events/${encodeURIComponent(event.id)}`, class: 'id' }, text);

const COLUMNS = [
  { title: 'Status', cell: (event) => badge(event.state) },
  { title: 'Event', class: 'wide', cell: (event) => to(event) },
  { title: 'Topic', class: 'mid', cell: (event) => raw(event.topic) },
  { title: 'Key', class: 'mid', cell: key },
  { title: 'Emitted', cell: (event) => when(event.created_at) },
  { title: 'Attempts', class: 'number', cell: (event) => count(event.attempts) },
  { title: 'Last error', class: 'wide', cell: (event) => (event.last_error === null ? '' : raw(event.last_error)) },
];

// A time of the form, which is local, as the server takes it.
const instant = (text) => (text ? new Date(text).toISOString() : '');

export async function events(container, parameters, signal) {
  const chosen = Object.fromEntries(parameters);
  const status = STATES.includes(chosen.status) ? chosen.status : '';
  const tabs = h('nav', { class: 'tabs', 'aria-label': 'Status' }, STATES.map((state) => {
    const query = new URLSearchParams({ ...chosen, status: state });
    if (state === '') query.delete('status');
    return h('a', { href: `#/events${query.size > 0 ? `?${query}` : ''}`, 'aria-current': state === status ? 'page' : null }, state || 'all');
  }));
  const field = (name, title, extra = {}) =>
    h('label', {}, h('span', {}, title), h('input', { name, value: chosen[name] ?? '', autocomplete: 'off', spellcheck: 'false', maxlength: 255, ...extra }));
  const form = h('form', { class: 'filters', onsubmit: (submit) => {
    submit.preventDefault();
    const entries = [...new FormData(form)].map(([name, value]) => [name, value.trim()]).filter(([, value]) => value !== '');
    const id = entries.find(([name]) => name === 'id')?.[1];
    location.hash = id ? `#/events/${encodeURIComponent(id)}`
      : `#/events?${new URLSearchParams([...(status ? [['status', status]] : []), ...entries])}`;
  } },
  field('id', 'Id', { placeholder: 'goes to the event' }), FILTERS.map(([name, title]) => field(name, title)),
  field('from', `Emitted from, ${zone()}`, { type: 'datetime-local', step: 1 }), field('to', `Emitted before, ${zone()}`, { type: 'datetime-local', step: 1 }),
  h('div', { class: 'buttons' }, h('button', { class: 'primary' }, 'Filter'),
    h('a', { class: 'button', href: status ? `#/events?status=${status}` : '#/events' }, 'Clear')));
  const list = h('div', { id: 'list' });
  const foot = h('p', { class: 'foot' });
  show(container, h('h1', {}, 'Events'), tabs, form, list, foot);

  const asked = { status, from: instant(chosen.from), to: instant(chosen.to),
    ...Object.fromEntries(FILTERS.map(([name]) => [name, chosen[name]])) };
  const rows = [];
  let searched = 0;
  const more = async (cursor) => {
    show(foot, 'Looking…');
    const page = await get('events', { ...asked, cursor }, signal);
    rows.push(...page.rows);
    searched += page.searched;
    const empty = page.next ? `Nothing found among the ${count(searched)} events looked at.` : 'No event fits.';
    show(list, table(COLUMNS, rows, { empty, label: 'Events' }));
    show(foot, `${count(rows.length)} shown, ${count(searched)} looked at. `,
      page.next ? h('button', { onclick: () => more(page.next) }, page.rows.length > 0 ? 'Show more' : 'Search on') : 'That is all.',
      status === '' || status === 'sent' ? ' Newest first, by id.' : status === 'failed' ? ' Newest first.' : ' Oldest first.');
    // A needle in a long history: go on by itself for a while.
    if (page.rows.length === 0 && page.next && searched < 1_000_000 && !signal.aborted) await more(page.next);
  };
  await more(null);
}

function life(event, audit) {
  const steps = [['emitted', event.created_at, 'Its transaction began.']];
  const wasScheduled = event.available_at !== null && (event.last_attempted_at === null || event.state !== 'retrying');
  if (wasScheduled) steps.push(['due', event.available_at, event.first_attempted_at ? 'Its last attempt was due.' : 'It may be sent from here on.']);
  if (event.first_attempted_at) steps.push(['first attempt', event.first_attempted_at, 'The first failed attempt that counted.']);
  if (event.last_attempted_at && event.state !== 'sent') {
    steps.push(['last attempt', event.last_attempted_at, event.last_error ?? 'The broker gave no reason.']);
  }
  if (event.processed_at) {
    const took = (Date.parse(event.processed_at) - Date.parse(event.created_at)) / 1000;
    // A clock that was set back meanwhile, or a created_at that was written by hand.
    const after = took < 0 ? '. By the database\'s clock its transaction began later' : `, ${latency(took)} after its transaction began`;
    steps.push(event.state === 'sent' ? ['sent', event.processed_at, `Confirmed by the broker${after}.`]
      : ['failed', event.processed_at, 'The relay has given it up.']);
  }
  if (event.state === 'retrying') steps.push(['next attempt', event.available_at, `Attempt ${event.attempts + 1}.`]);
  for (const row of audit) {
    steps.push([row.action === 'release' ? 'key released' : 'replayed', row.at, `By ${row.who ?? row.role}, with ${row.program || 'an unnamed program'}.`]);
  }
  steps.sort((one, other) => Date.parse(one[1]) - Date.parse(other[1]));
  if (event.state === 'pending') steps.push(['pending', null, 'It is to be delivered.']);
  return h('ol', { class: 'life' }, steps.map(([name, at, text]) =>
    h('li', { class: name.replace(' ', '-') }, h('b', {}, name), at && h('time', { datetime: at, title: ago(at) }, moment(at)), h('span', {}, visible(text)))));
}

const COLUMN_TEXTS = { aggregate_type: 'key, type', aggregate_id: 'key, id', event_type: 'type', seq: 'seq' };

export async function event(container, id, signal) {
  show(container, h('p', { class: 'empty' }, 'Looking…'));
  const found = await get(`events/${encodeURIComponent(id)}`, {}, signal);
  const shown = found.event;
  const facts = ['id', 'seq', 'topic', 'exchange', 'event_type', 'aggregate_type', 'aggregate_id', 'correlation_id', 'content_type', 'attempts', 'replays']
    .map((name) => [h('dt', {}, COLUMN_TEXTS[name] ?? name.replace('_', ' ')), h('dd', {}, raw(shown[name] === null ? null : String(shown[name])))]);
  const contents = h('div', {});
  const look = h('button', { onclick: async () => {
    const body = await get(`events/${encodeURIComponent(id)}/contents`, {}, signal);
    show(contents, body.headers !== null && [h('h3', {}, 'Headers'), h('pre', {}, visible(indented(body.headers)))],
      h('h3', {}, `Payload, ${bytes(body.bytes)}${body.is_base64 ? ', in base64' : ''}`), h('pre', { id: 'payload' }, visible(body.is_base64 ? body.payload : indented(body.payload ?? ''))),
      body.is_cut && h('p', { class: 'foot' }, 'Cut off here.'));
    look.remove();
  } }, 'Show payload and headers');
  const again = () => event(container, id, signal);
  show(container, h('p', { class: 'crumbs' }, h('a', { href: '#/events' }, 'Events'), ' / ', raw(shown.id)),
    h('h1', {}, badge(shown.state), ' ', raw(shown.topic)),
    shown.holds_key && h('p', { class: 'callout' }, 'It holds its key: later events of the key wait for it. ',
      h('a', { href: '#/keys' }, 'Keys')),
    found.held_by && h('p', { class: 'callout' }, 'It waits behind another event of its key, ', to({ id: found.held_by }), '.'),
    h('div', { class: 'columns' },
      h('section', { class: 'card' }, h('h2', {}, 'Life'), life(shown, found.audit)),
      h('section', { class: 'card' }, h('h2', {}, 'Envelope'), h('dl', {}, facts))),
    session.can_act && ['sent', 'failed'].includes(shown.state) && h('section', { class: 'card' }, h('h2', {}, 'Actions'),
      offer('replay', 'Replay', { ids: [shown.id] }, again),
      shown.state === 'failed' && shown.holds_key && offer('release', 'Release its key', { ids: [shown.id] }, again)),
    h('section', { class: 'card' }, h('h2', {}, 'Contents'),
      session.can_act ? [contents, look] : h('p', { class: 'foot' }, 'Payload and headers are shown to operators only.')));
}
