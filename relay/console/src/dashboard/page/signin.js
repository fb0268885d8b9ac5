// Signing in with a token; the relay then knows this browser by a cookie that no script can read.
import { NOBODY, learn, post, session } from './api.js';
import { dialog, notice } from './actions.js';
import { h } from './dom.js';

function form(done) {
  const input = h('input', { type: 'password', name: 'token', autocomplete: 'current-password', required: true, 'aria-label': 'Token' });
  const problem = h('p', { class: 'notice bad', hidden: true, role: 'alert' });
  return h('form', { class: 'signin', onsubmit: async (submit) => {
    submit.preventDefault();
    try {
      await post('session', { token: input.value });
      await learn();
      done();
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
      input.select();
    }
  } }, h('p', {}, 'Your token says whether you may read or also replay and release.'), h('label', {}, h('span', {}, 'Token'), input), problem,
  h('div', { class: 'buttons' }, h('button', { class: 'primary' }, 'Sign in')));
}

export function ask(done) {
  const element = dialog('Sign in', form(() => {
    element.close();
    done();
  }), []);
  element.querySelector('input').focus();
}

export function page(container, done) {
  if (session.closed) { // nobody has a token
    container.replaceChildren(h('section', { class: 'card narrow' }, h('h1', {}, 'Nobody is let in'), h('p', {}, `The reason: ${session.closed}.`)));
    return;
  }
  container.replaceChildren(h('section', { class: 'card narrow' }, h('h1', {}, 'Sign in'), form(done)));
  container.querySelector('input').focus();
}

export async function end(done) {
  try {
    await post('session/end', {});
  } catch (error) {
    notice(error.message, 'bad');
  }
  Object.assign(session, NOBODY);
  await learn();
  done();
}
