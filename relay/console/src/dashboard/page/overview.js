// The first page: do events flow? In words, then in figures, then in charts.
import { get } from './api.js';
import { charts } from './charts.js';
import { h, raw, show, visible } from './dom.js';
import { bytes, count, duration } from './format.js';
import { latest, listen, lost } from './live.js';

const KEPT = 600; // samples, one a second

function tiles(figures) {
  const health = figures.health;
  const tile = (title, value, href, tone) =>
    h(href ? 'a' : 'div', { class: `tile ${tone ?? ''}`, href }, h('span', { class: 'name' }, title), h('strong', {}, value));
  return [
    tile('Sent per second', count(figures.sent)),
    tile('Latency, 99 %', duration(figures.p99)),
    tile('Pending', health ? count(health.pending, health.pending_is_estimate) : '–', '#/events?status=pending'),
    tile('Oldest pending', health ? duration(health.oldest_pending_seconds) : '–', '#/events?status=pending',
      health?.oldest_pending_seconds > 60 ? 'bad' : ''),
    tile('Retrying', health ? count(health.retrying, health.scheduled_is_estimate) : '–', '#/events?status=retrying',
      health?.retrying > 0 ? 'warn' : ''),
    tile('Scheduled', health ? count(health.scheduled, health.scheduled_is_estimate) : '–', '#/events?status=scheduled'),
    tile('Failed', health ? count(health.failed, health.failed_is_estimate) : '–', '#/failed', health?.failed > 0 ? 'bad' : ''),
    tile('Keys held', health ? count(health.keys_held) : '–', '#/keys', health?.keys_held > 0 ? 'warn' : ''),
    tile('WAL kept by the slot', health ? bytes(health.slot_kept_bytes) : '–', '#/relays'),
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
      figures.state && h('span', {}, 'state ', h('b', {}, figures.state), ` for ${duration(figures.state_for)}`),
      figures.database && h('span', {}, 'PostgreSQL at ', raw(figures.database)),
      figures.broker && h('span', {}, `${figures.sink} at `, raw(figures.broker)),
      h('span', {}, `${count(figures.in_flight)} in flight`),
    ];
    show(words, h('p', { class: 'answer' }, visible(figures.words)), h('p', { class: 'detail' }, details),
      figures.health_error && h('p', { class: 'detail' }, visible(figures.health_error)));
    show(grid, tiles(figures));
    if (samples && figures.t > (samples.t.at(-1) ?? 0)) {
      for (const [key, list] of Object.entries(samples)) {
        list.push(figures[key] ?? null);
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
