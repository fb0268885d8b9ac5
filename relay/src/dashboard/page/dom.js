// Builds elements. Text is set as text and nothing else: what an event carries is never parsed as HTML.

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// Characters that are not seen, or that turn the text around them: an event's topic must not look like another one.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]|\u{e0000}|[\u{e0001}-\u{e0fff}]/gu;

export function visible(text) {
  return text.replace(UNSEEN, (character) => `\\u{${character.codePointAt(0).toString(16)}}`);
}

// Text that somebody else wrote.
export function raw(text, attributes = {}) {
  if (text === null || text === undefined) return h('span', { class: 'none' }, '–');
  return h('bdi', { class: 'raw', ...attributes }, visible(text));
}

export function table(columns, rows, { empty, label }) {
  if (rows.length === 0) return h('p', { class: 'empty' }, empty);
  return h('div', { class: 'table' }, h('table', { 'aria-label': label },
    h('thead', {}, h('tr', {}, columns.map((column) => h('th', { scope: 'col', class: column.class }, column.title)))),
    h('tbody', {}, rows.map((row) => h('tr', {}, columns.map((column) => {
      const cell = column.cell(row);
      return h('td', { class: `${column.class ?? ''} ${cell === '' ? 'blank' : ''}`, 'data-label': column.title }, h('div', {}, cell));
    }))))));
}

export function show(container, ...children) {
  container.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
}
