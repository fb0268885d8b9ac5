// Charts of the last hour. uPlot draws on a canvas; colours come from the style sheet, so that dark and light fit.
/* global uPlot */
import { h } from './dom.js';
import { age, bytes, compact, latency, zone } from './format.js';

// Steps of an axis: whole events, powers of two for sizes, and units of time for ages.
const WHOLE = [1, 2, 5].flatMap((digit) => [...Array(12)].map((_, power) => digit * 10 ** power)).sort((one, other) => one - other);
const BINARY = [...Array(50)].map((_, power) => 2 ** power);
const AGES = [0.1, 0.5, 1, 5, 15, 30, 60, 300, 900, 1800, 3600, 14400, 43200, 86400, 604800];

const CHARTS = [
  { title: 'Rate', unit: 'events a second', axis: 'events a second', value: compact, steps: WHOLE, series: [['received', 'received'], ['sent', 'sent'], ['failed', 'failed']] },
  { title: 'Latency', unit: 'from commit to the broker’s confirm', axis: 'latency, logarithmic', value: latency, isLogarithmic: true, hasGaps: true, series: [['p50', '50 % are faster'], ['p99', '99 % are faster']] },
  { title: 'Backlog', unit: 'events that wait to be sent', axis: 'events', value: compact, steps: WHOLE, series: [['pending', 'pending']],
    second: { axis: 'age of the oldest', value: age, series: [['oldest', 'age of the oldest']] } },
  { title: 'Slot', unit: 'WAL that PostgreSQL keeps for the relay', axis: 'WAL', value: bytes, steps: BINARY, series: [['kept', 'kept'], ['behind', 'not acknowledged']] },
];

// A linear scale begins at 0; a logarithmic one, for what has a long tail, ends at powers of ten on both sides.
const upTo = (least) => ({ range: (_, low, high) => [0, Math.max(high * 1.1, least)] });
const POWERS = {
  distr: 3,
  range: (_, low, high) => [10 ** Math.floor(Math.log10(Math.max(low, 1e-4))), 10 ** Math.ceil(Math.log10(Math.max(high, 1e-3)))],
};
const isPower = (value) => Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-6;
const onlyPowers = (_, splits) => splits.map((split) => (isPower(split) ? split : null));

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const COLORS = { received: '--blue', sent: '--green', failed: '--red', p50: '--green', p99: '--orange', pending: '--blue',
  oldest: '--orange', kept: '--blue', behind: '--orange' };

const HEIGHT = 196;

function axis(label, value, extra = {}) {
  return {
    label, labelSize: 16, labelGap: 0, labelFont: '11px system-ui', stroke: color('--faint'), grid: { stroke: color('--line'), width: 1, ...(extra.filter && { filter: extra.filter }) }, ticks: { show: false }, size: 54, gap: 6, space: 24, font: '11px system-ui',
    values: (_, splits) => splits.map((split) => (split === null ? '' : value(split))), ...extra,
  };
}

function draw(chart, box, samples) {
  const lines = [...chart.series.map((line) => [...line, 'y', chart.value]),
    ...(chart.second?.series ?? []).map((line) => [...line, 'second', chart.second.value])];
  const data = [samples.t, ...lines.map(([key]) => samples[key])];
  const options = {
    width: Math.max(box.clientWidth, 200), height: HEIGHT, padding: [10, chart.second ? 0 : 18, 0, 0],
    cursor: { points: { size: 6 }, drag: { x: false, y: false } },
    legend: { live: true },
    scales: { x: { time: true }, y: chart.isLogarithmic ? POWERS : upTo(1e-9), second: upTo(1) },
    axes: [
      axis(`time, ${zone()}`, String, { size: 26, grid: { show: false }, space: 70, values: [[60, '{HH}:{mm}', null, null, null, null, null, null, 1], [1, '{HH}:{mm}:{ss}', null, null, null, null, null, null, 1]] }),
      axis(chart.axis, chart.value, { ...(chart.steps && { incrs: chart.steps }), ...(chart.isLogarithmic && { filter: onlyPowers }) }),
      ...(chart.second ? [axis(chart.second.axis, chart.second.value, { scale: 'second', side: 1, incrs: AGES, grid: { show: false } })] : []),
    ],
    series: [
      { value: (_, time) => (time === null ? '' : new Date(time * 1000).toLocaleTimeString()) },
      ...lines.map(([key, label, scale, value]) => ({
        label, scale, stroke: color(COLORS[key]), width: 1.5, points: { show: false }, spanGaps: chart.hasGaps, // while nothing is sent there is no latency
        // Under the pointer; without one, the latest.
        value: (plot, number, place, index) => {
          const shown = index === null ? plot.data[place].at(-1) : number;
          return shown === null || shown === undefined ? '–' : value(shown);
        },
      })),
    ],
  };
  return new uPlot(options, data, box);
}

// The four charts; update(samples) redraws them.
export function charts() {
  const parts = CHARTS.map((chart) => {
    const box = h('div', { class: 'plot', role: 'img', 'aria-label': `${chart.title}: ${chart.unit}` });
    return { chart, box, card: h('section', { class: 'card chart' }, h('h2', {}, chart.title, h('small', {}, `${chart.unit}, last hour`)), box), plot: null };
  });
  let last = null;
  const redraw = () => {
    for (const part of parts) {
      part.plot?.destroy();
      part.plot = last && part.box.isConnected ? draw(part.chart, part.box, last) : null;
    }
  };
  const resized = new ResizeObserver(() => {
    for (const { plot, box } of parts) plot?.setSize({ width: Math.max(box.clientWidth, 200), height: HEIGHT });
  });
  for (const { box } of parts) resized.observe(box);
  const scheme = matchMedia('(prefers-color-scheme: dark)');
  scheme.addEventListener('change', redraw);
  document.addEventListener('themechange', redraw);
  return {
    element: h('div', { class: 'charts' }, parts.map(({ card }) => card)),
    update(samples) {
      const isFirst = last === null;
      last = samples;
      if (isFirst) return redraw();
      for (const { chart, plot } of parts) {
        const keys = [...chart.series, ...(chart.second?.series ?? [])].map(([key]) => key);
        plot?.setData([samples.t, ...keys.map((key) => samples[key])]);
      }
    },
    end() {
      resized.disconnect();
      scheme.removeEventListener('change', redraw);
      document.removeEventListener('themechange', redraw);
      for (const { plot } of parts) plot?.destroy();
    },
  };
}
