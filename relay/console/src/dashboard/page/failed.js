// What has failed, grouped by topic and error.
import { get, session } from './api.js';
import { act } from './actions.js';
import { h, raw, show, table } from './dom.js';
import { count } from './format.js';
import { when } from './events.js';

export async function failed(container, _, signal) {
  const page = await get('failures', {}, signal);
  const filter = (group) => ({ topic: group.topic, error: group.last_error, status: 'FAILED' });
  const columns = [
    { title: 'Failed', class: 'number', cell: (group) => h('b', {}, count(group.failed)) },
    { title: 'Topic', class: 'mid', cell: (group) => h('a', { href: `#/events?${new URLSearchParams({ status: 'failed', topic: group.topic })}` }, raw(group.topic)) },
    { title: 'Error', class: 'wide', cell: (group) => raw(group.last_error) },
    { title: 'Keys held', class: 'number', cell: (group) => count(group.keys_held) },
    { title: 'Last attempt', cell: (group) => when(group.last_attempted_at) },
    { title: 'Example', cell: (group) => h('a', { href: `#/events/${group.example_id}`, class: 'id' }, 'look') },
    session.can_act && { title: 'Action', cell: (group) => group.last_error === null ? '' :
      h('button', { onclick: () => act('replay', filter(group), () => failed(container, _, signal)) }, 'Replay') },
  ].filter(Boolean);
  show(container, h('h1', {}, 'Failed'), h('p', { class: 'lead' }, 'Events that the relay has given up, by topic and error. Fix the cause first. Replay then sends a group again, with the same ids; '
    + 'it first asks, with counts. Events that wait for a held key follow.'),
    table(columns, page.groups, { empty: 'Nothing has failed.', label: 'Failed events by error' }),
    page.groups.length > 0 && h('p', { class: 'foot' }, page.is_more ? `Of the latest ${count(page.looked_at)} failed events; there are more.` : 'All failed events are counted here.',
      !session.can_act && ' Replaying needs an operator’s token.'));
}
