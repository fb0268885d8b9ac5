// Replay and release: first the count, then the question, then the deed.
import { post } from './api.js';
import { h, raw, show } from './dom.js';
import { count, events } from './format.js';

const TEXTS = {
  replay: { title: 'Replay', ask: 'will be sent again, with the same ids.', done: 'are pending again' },
  release: { title: 'Release', ask: 'will release the key: later events go on without.', done: 'have released the key' },
};

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
        notice(`${events(result.events)} ${result.events === 1 ? text.done.replace('are', 'is').replace('have', 'has') : text.done}.`);
        done?.();
      } catch (error) {
        element.close();
        notice(error.message, 'bad');
      }
    } }, `${text.title} ${events(preview.events)}`);
    const element = dialog(`${text.title}?`, [
      h('p', {}, h('b', {}, events(preview.events)), ` ${text.ask}`), described(filter),
      preview.is_more && h('p', { class: 'foot' }, `There are more; one action takes the oldest ${count(preview.events)}. Repeat it for the others.`),
    ], [cancel, go]);
    go.focus();
  } catch (error) {
    notice(error.message, 'bad');
  }
}
