// What the relay tells each second, for whoever listens.

const listeners = new Set();
let source = null;
let isPaused = false;
export const latest = { figures: null, at: null };

export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function start() {
  source?.close();
  source = new EventSource('api/live');
  source.addEventListener('figures', (message) => {
    if (isPaused) return;
    Object.assign(latest, { figures: JSON.parse(message.data), at: Date.now() });
    for (const listener of listeners) listener(latest.figures);
  });
  source.onerror = () => {
    for (const listener of listeners) listener(null);
  };
}

export function stop() {
  source?.close();
  source = null;
}

export const running = () => source !== null;

export const paused = () => isPaused;

export function pause(on) {
  isPaused = on;
}
