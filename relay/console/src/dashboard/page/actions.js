// Replay and release: first the count, then the question, then the deed.
import { post } from './api.js';
import { h, raw, show } from './dom.js';
import { count, events } from './format.js';

const TEXTS = {
  replay: { title: 'Replay', done: (changed) => `${events(changed)} ${changed === 1 ? 'is' : 'are'} pending again.` },
  release: { title: 'Release', done: () => 'The key is released.' },
};

// What an action will do, in sentences with the preview's counts.
function effects(action, { events: changed, sent, keys, waiting, waiting_is_more: isMore }) {
  const later = `${isMore ? 'at least ' : ''}${count(waiting)} later ${waiting === 1 ? 'event' : 'events'}`;
  if (action === 'release') return ['The event stays failed and will not be sent.', `Its key is released: ${later} will go on without it.`];
  return [`${events(changed)} will be sent again, with the same ${changed === 1 ? 'id' : 'ids'}.`,
    sent > 0 && `${count(sent)} had been sent: consumers without an inbox see ${sent === 1 ? 'it' : 'them'} twice.`,
    keys > 0 && `${keys === 1 ? 'Its key stays' : `${count(keys)} keys stay`} held until then; ${later} will follow.`].filter(Boolean);
}

// A button, and beside it what it will do.
export function offer(action, title, filter, done) {
  const words = h('p', {}, 'Counting…');
  post('preview', { action, filter }).then((preview) => show(words, effects(action, preview).join(' ')), (error) => show(words, error.message));
  return h('div', { class: 'offer' }, h('button', { onclick: () => act(action, filter, done) }, title), words);
}

export function notice(text, tone = '') {
  const line = h('p', { class: `notice ${tone}` }, text);
  document.getElementById('notices').append(line);
  setTimeout(() => line.remove(), 8000);
}

export function dialog(title, body, buttons) {
  const element = document.getElementById('dialog');
  show(element, h('h2', { id: 'dialog-title' }, title), body, h('div', { class: 'buttons' }, buttons));
  if (!element.open) element.showModal();
  return element;
}

const described = (filter) => filter.ids ? null : h('dl', {}, Object.entries(filter).map(([name, value]) =>
  [h('dt', {}, name.replace('_', ' ')), h('dd', {}, raw(value))]));

export async function act(action, filter, done) {
  const text = TEXTS[action];
  try {
    const preview = await post('preview', { action, filter });
    if (preview.events === 0) return notice('No event fits any more.');
    const cancel = h('button', { onclick: () => element.close() }, 'Cancel');
    const go = h('button', { class: 'primary', onclick: async () => {
      go.disabled = true;
      try {
        const result = await post('act', { action, filter, events: preview.events });
        element.close();
        notice(text.done(result.events));
        done?.();
      } catch (error) {
        element.close();
        notice(error.message, 'bad');
      }
    } }, `${text.title} ${events(preview.events)}`);
    const element = dialog(`${text.title}?`, [
      ...effects(action, preview).map((sentence) => h('p', {}, sentence)), described(filter),
      preview.is_more && h('p', { class: 'foot' }, `There are more; one action takes the oldest ${count(preview.events)}. Repeat it for the others.`),
    ], [cancel, go]);
    go.focus();
  } catch (error) {
    notice(error.message, 'bad');
  }
}
