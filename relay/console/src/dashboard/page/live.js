// What the relay tells each second, for whoever listens.

const listeners = new Set();
let source = null;
let isPaused = false;
let isLost = false;
let heardAt = 0;
let changed = () => {};
// The relay tells each second; one that has hung up or hangs is lost.
const SILENT = 5000;
export const latest = { figures: null };

export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

// Calls when the relay is lost or is there again.
export function watch(listener) {
  changed = listener;
}

function lose(now) {
  if (now) for (const listener of listeners) listener(null);
  if (now !== isLost) {
    isLost = now;
    changed();
  }
}

setInterval(() => {
  if (source && !isLost && Date.now() - heardAt > SILENT) lose(true);
}, 1000);

export function start() {
  source?.close();
  source = new EventSource('api/live');
  heardAt = Date.now();
  source.addEventListener('figures', (message) => {
    heardAt = Date.now();
    lose(false);
    if (isPaused) return;
    latest.figures = JSON.parse(message.data);
    for (const listener of listeners) listener(latest.figures);
  });
  source.onerror = () => lose(true);
}

export function stop() {
  source?.close();
  source = null;
}

export const lost = () => isLost;

export const running = () => source !== null;

export const paused = () => isPaused;

export function pause(on) {
  isPaused = on;
}
