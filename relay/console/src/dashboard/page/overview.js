// The first page: do events flow? In words, then in figures, then in charts.
import { get } from './api.js';
import { charts } from './charts.js';
import { h, raw, show, visible } from './dom.js';
import { age, bytes, count, events, latency, rate } from './format.js';
import { latest, listen, lost } from './live.js';

const KEPT = 720; // samples, one each five seconds

// Tiles by what one does about them: watch the flow, act on what stands still, make room.
function tiles(figures) {
  const health = figures.health;
  const known = (show) => (health ? show(health) : '–');
  const tile = (title, value, unit, href, tone) => h(href ? 'a' : 'div', { class: `tile ${tone ?? ''}`, href },
    h('span', { class: 'name' }, title), h('strong', {}, value), h('small', {}, unit));
  const group = (title, ...parts) => h('section', { class: 'group' }, h('h2', {}, title), h('div', {}, parts));
  return [
    group('Flow, over the last minute',
      tile('Sent', rate(figures.sent), 'a second'),
      tile('Latency', latency(figures.p99), '99 % are faster'),
      tile('Pending', known(({ pending, pending_is_estimate: about }) => count(pending, about)), 'now', '#/events?status=pending'),
      tile('Oldest', known((now) => (now.oldest_pending_seconds === null ? 'none' : age(now.oldest_pending_seconds))), 'pending', '#/events?status=pending', health?.oldest_pending_seconds > 60 ? 'bad' : ''),
      tile('Scheduled', known(({ scheduled, scheduled_is_estimate: about }) => count(scheduled, about)), 'for later', '#/events?status=scheduled')),
    group('To act on',
      tile('Failed', known(({ failed, failed_is_estimate: about }) => count(failed, about)), 'to replay', '#/failed', health?.failed > 0 ? 'bad' : ''),
      tile('Keys held', known((now) => count(now.keys_held)), 'events wait', '#/keys', health?.keys_held > 0 ? 'warn' : ''),
      tile('Retrying', known(({ retrying, scheduled_is_estimate: about }) => count(retrying, about)), 'by themselves', '#/events?status=retrying', health?.retrying > 0 ? 'warn' : '')),
    group('Room',
      tile('WAL', known((now) => bytes(now.slot_kept_bytes)), 'kept by the slot', '#/relays'),
      tile('Memory', bytes(figures.memory_bytes), `${events(figures.in_memory)}`)),
  ];
}

export async function overview(container, _, signal) {
  const words = h('section', { class: 'hero', 'data-level': 'unknown' }, h('p', { class: 'answer' }, 'Looking…'));
  const grid = h('section', { class: 'tiles', 'aria-label': 'Figures' });
  const plots = charts();
  show(container, h('h1', { class: 'hidden' }, 'Do events flow?'), words, grid, plots.element);
  signal.addEventListener('abort', plots.end);

  let samples = null; // the history is not here yet
  const draw = (figures) => {
    if (figures === null) {
      words.dataset.level = 'unknown';
      show(words, h('p', { class: 'answer' }, 'This page has lost its relay.'),
        h('p', { class: 'detail' }, 'It tries again by itself. The figures below are the last that were seen.'));
      return;
    }
    words.dataset.level = figures.level;
    const details = [
      figures.state && h('span', {}, h('b', {}, figures.state), ` for ${age(figures.state_for)}`),
      figures.database && h('span', {}, 'PostgreSQL at ', raw(figures.database)),
      figures.broker && h('span', {}, `${figures.sink} at `, raw(figures.broker)),
      h('span', {}, `${count(figures.in_flight)} in flight`),
    ];
    show(words, h('p', { class: 'answer' }, visible(figures.words)), h('p', { class: 'detail' }, details),
      figures.health_error && h('p', { class: 'detail' }, visible(figures.health_error)));
    show(grid, tiles(figures));
    const { sample } = figures;
    if (samples && sample?.t > (samples.t.at(-1) ?? 0)) {
      for (const [key, list] of Object.entries(samples)) {
        list.push(sample[key] ?? null);
        if (list.length > KEPT) list.shift();
      }
      plots.update(samples);
    }
  };
  if (latest.figures) draw(latest.figures);
  if (lost()) draw(null);
  signal.addEventListener('abort', listen(draw));

  // A relay that hangs does not answer this, and the page says so meanwhile.
  samples = await get('history', {}, signal);
  plots.update(samples);
}
