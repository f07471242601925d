extension InspectorPage {
    /// Text from the server becomes text of the page by `textContent` alone, so that it is never read as markup.
    static let script = #"""
        'use strict';
        const $ = id => document.getElementById(id);
        const el = (name, props = {}, ...kids) => {
          const node = document.createElement(name);
          for (const [key, value] of Object.entries(props)) {
            if (key === 'class') node.className = value;
            else if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
            else if (key in node && key !== 'list') node[key] = value;
            else node.setAttribute(key, value);
          }
          node.append(...kids.filter(kid => kid !== null && kid !== ''));
          return node;
        };
        const set = (node, text) => { if (node.textContent !== text) node.textContent = text; };
        const readOnly = document.documentElement.dataset.readOnly === 'true';

        // Numbers as text.
        const grouped = new Intl.NumberFormat('en-US');
        const count = n => grouped.format(n);
        const bytes = n => {
          for (const [unit, size] of [['GB', 1e9], ['MB', 1e6], ['kB', 1e3]]) {
            if (n >= size) return (n / size).toFixed(n / size < 10 ? 1 : 0) + ' ' + unit;
          }
          return Math.round(n) + ' B';
        };
        const span = ms => {
          const s = ms / 1000;
          const [value, unit] = ms < 10 ? [ms.toFixed(1), 'ms'] : s < 1 ? [Math.round(ms), 'ms']
            : s < 120 ? [s.toFixed(s < 10 ? 1 : 0), 's'] : s < 7200 ? [Math.round(s / 60), 'min']
            : s < 172800 ? [Math.round(s / 3600), 'h'] : [count(Math.round(s / 86400)), 'd'];
          return value + '\u00a0' + unit;
        };
        const ago = s => s < 1 ? 'now' : span(s * 1000) + ' ago';
        const percent = part => (100 * part).toFixed(part > 0 && part < 0.1 ? 1 : 0) + ' %';

        /// Keeps the rows of a table in step with items: rows of items that stay are changed in place.
        const sync = (body, items, key, make, change) => {
          const old = body.rowsByKey ?? new Map(), now = new Map();
          let place = body.firstElementChild;
          for (const item of items) {
            const id = key(item);
            let row = old.get(id);
            if (!row) { row = make(item); row.cellTexts = [...row.children]; }
            now.set(id, row);
            change(row, item);
            if (row === place) place = place.nextElementSibling; else body.insertBefore(row, place);
          }
          for (const [id, row] of old) if (now.get(id) !== row) row.remove();
          body.rowsByKey = now;
        };
        const urlParts = text => {
          const rest = text.replace(/^https?:\/\//, '');
          const cut = rest.lastIndexOf('/', Math.max(0, rest.search(/[?\n]|$/) - 2)) + 1;
          return [rest.slice(0, cut), rest.slice(cut) || rest];
        };
        const what = text => {
          const [head, tail] = urlParts(text);
          return [el('span', {}, head), tail];
        };
        const tiles = (list, items) => {
          for (const [name, value, more = '', warn = false] of items) {
            let tile = [...list.children].find(tile => tile.dataset.name === name);
            if (!tile) {
              tile = el('div', {}, el('dt', {}, name), el('dd'), el('dd', { class: 'more' }));
              tile.dataset.name = name;
              list.append(tile);
            }
            set(tile.children[1], value); set(tile.children[2], more);
            tile.classList.toggle('warn', warn);
          }
        };

        // What the server has told.
        let clock = 0, now = { fetches: [], counts: [0, 0, 0, 0, 0], flight: 0 }, cache = null, sums = null;
        const fetches = new Map(), answers = [], samples = [];
        let lastAnswer = 0, view = 'now', dirty = true;
        let byAge = null;
        const limit = 10000;

        let source = null, wasLive = false;
        const connect = () => {
          if (source || document.hidden) return;
          source = new EventSource('events');
          source.onopen = () => { wasLive = true; set($('link'), 'Live'); $('link').className = 'live'; };
          source.onerror = () => {
            set($('link'), wasLive ? 'The program has ended or is busy; trying again…' : 'No connection; trying again…');
            $('link').className = 'lost';
            if (source.readyState === EventSource.CLOSED) { source = null; setTimeout(connect, 2000); }
          };
          source.onmessage = event => take(JSON.parse(event.data));
        };
        document.addEventListener('visibilitychange', () => {
          if (!document.hidden) return connect();
          if (source) source.close();
          source = null;
        });

        const take = message => {
          if (message.over) {
            source.close();
            set($('link'), 'The cache has shut down.');
            $('link').className = 'lost';
            return;
          }
          clock = Math.max(clock, message.t);
          now = message.now ?? now;
          for (const row of message.rows ?? []) {
            if (!fetches.has(row.i)) byAge = null;
            fetches.set(row.i, row);
          }
          for (const answer of message.ended ?? []) {
            if (answer[0] <= lastAnswer) continue;
            lastAnswer = answer[0];
            answers.unshift(answer);
          }
          answers.length = Math.min(answers.length, 100);
          if (message.sums) sums = message.sums;
          if (message.cache) { cache = message.cache; sample(); }
          if (chosen !== null && fetches.get(chosen) !== shownRow && performance.now() - toldStory > 1000) story();
          if (fetches.size > limit + 1000) rows();
          dirty = true;
        };

        // One sample a second, for rates and plots.
        const sample = () => {
          const flight = now.fetches.reduce((sum, fetch) => sum + fetch.r, 0);
          samples.push({ at: performance.now(), moved: cache.bytes + flight, hits: [...cache.hits],
            waiting: now.counts[1] + now.counts[3], running: now.counts[0] + now.counts[2] });
          if (samples.length > 121) samples.shift();
        };
        const rates = () => samples.slice(1).map((b, i) => {
          const a = samples[i], s = Math.max(0.2, (b.at - a.at) / 1000);
          const answered = list => list.slice(0, 7).reduce((x, y) => x + y, 0);
          return { bytes: Math.max(0, b.moved - a.moved) / s, answers: Math.max(0, answered(b.hits) - answered(a.hits)) / s,
            waiting: b.waiting, running: b.running };
        });

        // Now
        const stateOf = fetch => fetch.s === 'waiting' && fetch.w.startsWith('looks') ? 'looking' : fetch.s;
        let hasRow = false;
        const drawNow = () => {
          const [fr, fw, sr, sw, parked] = now.counts, rate = rates().at(-1);
          const paused = now.fetches.filter(fetch => fetch.s === 'paused').length;
          const items = [
            ['Urgent fetches', `${count(fr)} running`, `${count(fw)} waiting`],
            ['Prefetches', `${count(sr)} running`, `${count(sw)} waiting${paused ? `, ${paused} paused` : ''}`],
            ['Parked', count(parked), 'for the network or a retry'],
            ['Download rate', rate ? bytes(rate.bytes) + '/s' : '–', rate ? `${Math.round(rate.answers)} answers/s` : ''],
          ];
          if (cache) {
            const open = sums?.open ?? {};
            const network = cache.network || (cache.constrained ? 'constrained' : cache.expensive ? 'expensive' : 'available');
            items.push(
              ['Decoding', `${count(open.decode ?? 0)} running`, `${count(open.step ?? 0)} steps, ${count(open.write ?? 0)} writes`],
              ['Bodies in memory', bytes(now.flight), `of at most ${bytes(cache.flightLimit)}`],
              ['Memory', bytes(cache.memory[0]), `${count(cache.memory[1])} entries, limit ${bytes(cache.memory[2])}`]);
            if (cache.pictures) items.push(['Pictures', bytes(cache.pictures[0]),
              `${count(cache.pictures[1])} decoded, limit ${bytes(cache.pictures[2])}`]);
            items.push(
              ['Disk', bytes(cache.disk[0]), `${count(cache.disk[1])} entries`
                + (cache.disk[2] === null ? '' : `, limit ${bytes(cache.disk[2])}`)],
              ['Network', network, cache.network ? 'simulated' : '', network === 'offline'],
              ['Memory pressure', cache.pressure, cache.simulatedPressure ? 'simulated' : '', cache.pressure !== 'normal']);
          }
          tiles($('tiles'), items);
          sync($('fetches').tBodies[0], now.fetches, fetch => fetch.i,
            fetch => el('tr', {}, el('td', {}, el('span')), el('td'),
              el('td', { class: 'what' }, el('button', { type: 'button', onclick: () => open(fetch.i) }, ...what(fetch.k))),
              el('td'), el('td', { class: 'number wide' }),
              el('td', { class: 'number wide' })),
            (row, fetch) => {
              const [queue, state, , why, calls, attempts] = row.cellTexts;
              queue.firstChild.className = 'queue ' + fetch.q;
              set(queue.firstChild, fetch.q === 'fast' ? 'urgent' : 'slow');
              set(state, stateOf(fetch));
              const received = fetch.r ? bytes(fetch.r) + (fetch.x ? ' of ' + bytes(fetch.x) : '') : '';
              set(why, [fetch.w + (fetch.f && fetch.s === 'parked' ? ` (${fetch.f})` : ''), received].filter(t => t).join(', '));
              set(calls, count(fetch.c)); set(attempts, count(fetch.a));
            });
          if (!hasRow && now.fetches.length) hasRow = Boolean(performance.mark('first row'));
          $('no-fetches').hidden = now.fetches.length > 0;
          const all = now.counts.reduce((a, b) => a + b, 0);
          set($('fetches-title'), 'Fetches under way' + (all > now.fetches.length
            ? ` (${now.fetches.length} of ${count(all)})` : all ? ` (${all})` : ''));
          sync($('answers').tBodies[0], answers.slice(0, 50), answer => answer[0],
            ([, key, queue, at, took, result, failed]) => el('tr', {},
              el('td', {}, el('span', { class: 'source ' + (failed ? 'bad' : result === 'network' ? 'fast' : 'good') }, result)),
              el('td', { class: 'what' }, ...what(key)), el('td', { class: 'wide' }, queue === 'fast' ? 'urgent' : queue),
              el('td', { class: 'number' }, took === null ? '' : span(took)), el('td', { class: 'number wide' }, (at / 1000).toFixed(1) + ' s')),
            () => {});
          $('no-answers').hidden = answers.length > 0;
        };

        // Timeline: only the rows in sight are drawn.
        const canvas = $('canvas'), chart = $('chart'), rowHeight = 22, axis = 26;
        let from = 0, perPixel = 20, follow = true, top = 0, chosen = null, shownRow = null, colors = {};
        const readColors = () => {
          const style = getComputedStyle(document.documentElement);
          for (const name of ['ink', 'quiet', 'card', 'line', 'hover', 'fast', 'slow', 'fast-pale', 'slow-pale', 'look', 'bad',
            'good']) colors[name] = style.getPropertyValue('--' + name).trim();
        };
        readColors();
        matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { readColors(); dirty = true; });
        const nameWidth = () => Math.min(230, chart.clientWidth * 0.36);
        const plotWidth = () => Math.max(50, chart.clientWidth - nameWidth());
        const rows = () => {
          const text = $('find').value.trim().toLowerCase();
          byAge ??= [...fetches.keys()].sort((a, b) => a - b);
          for (const old of byAge.splice(0, Math.max(0, byAge.length - limit))) fetches.delete(old);
          const all = byAge.map(id => fetches.get(id));
          return text ? all.filter(row => row.k.toLowerCase().includes(text)) : all;
        };
        const inView = () => Math.floor((chart.clientHeight - axis) / rowHeight);
        const keepInRange = list => { top = Math.max(0, Math.min(top, list.length - inView())); };
        const textOf = (context, text, width) => {
          if (context.measureText(text).width <= width) return text;
          let keep = Math.max(1, Math.floor(text.length * width / context.measureText(text).width) - 1);
          return text.slice(0, Math.ceil(keep / 2)) + '…' + text.slice(text.length - Math.floor(keep / 2));
        };
        const drawChart = () => {
          const width = chart.clientWidth, height = chart.clientHeight, scale = devicePixelRatio || 1;
          if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
            canvas.width = Math.round(width * scale); canvas.height = Math.round(height * scale);
          }
          const list = rows(), names = nameWidth(), plot = plotWidth();
          if (follow) { from = clock - plot * perPixel * 0.94; 
            const active = list.findLastIndex(row => row.e === null && row.s.at(-3) !== 0);
            top = active < 0 ? list.length : active - inView() * 0.7;
          }
          keepInRange(list);
          const c = canvas.getContext('2d');
          c.setTransform(scale, 0, 0, scale, 0, 0);
          c.fillStyle = colors.card; c.fillRect(0, 0, width, height);
          c.font = '12px system-ui, "Noto Sans", "DejaVu Sans", sans-serif'; c.textBaseline = 'middle';
          const x = time => names + (time - from) / perPixel;
          // The axis, in steps of 1, 2 or 5.
          const rough = perPixel * 90, power = 10 ** Math.floor(Math.log10(rough));
          const step = power * [1, 2, 5, 10].find(factor => power * factor >= rough);
          c.textAlign = 'center';
          for (let tick = Math.max(0, Math.ceil(from / step) * step); x(tick) < width; tick += step) {
            c.fillStyle = colors.line; c.fillRect(x(tick), axis, 1, height);
            c.fillStyle = colors.quiet;
            if (x(tick) < width - 20) c.fillText(step >= 1000 ? tick / 1000 + ' s' : +(tick / 1000).toFixed(3) + ' s', x(tick), axis / 2);
          }
          c.textAlign = 'left';
          const last = Math.min(list.length, Math.ceil(top) + inView() + 1);
          for (let index = Math.floor(top); index < last; index++) {
            const row = list[index], y = axis + (index - top) * rowHeight, middle = y + rowHeight / 2;
            if (row.i === chosen) { c.fillStyle = colors.hover; c.fillRect(0, y, width, rowHeight); }
            const end = row.e ?? clock;
            for (let i = 0; i < row.s.length; i += 3) {
              const phase = row.s[i], name = row.s[i + 1] ? 'slow' : 'fast';
              const a = Math.max(names, x(row.s[i + 2])), b = Math.min(width, x(i + 5 < row.s.length ? row.s[i + 5] : end));
              if (b < names || a > width) continue;
              const w = Math.max(b - a, phase === 2 ? 2 : 1);
              const h = [4, 9, 14, 14, 11][phase];
              if (phase === 4) {
                c.strokeStyle = colors[name]; c.setLineDash([2, 2]); c.strokeRect(a, middle - h / 2, w, h); c.setLineDash([]);
                continue;
              }
              c.fillStyle = phase === 0 ? colors[name + '-pale'] : phase === 1 ? colors.look : colors[name];
              c.globalAlpha = phase === 3 ? 0.35 : 1;
              c.fillRect(a, middle - h / 2, w, h);
              if (phase === 3) {
                c.globalAlpha = 1; c.save(); c.beginPath(); c.rect(a, middle - h / 2, w, h); c.clip();
                c.strokeStyle = colors[name]; c.beginPath();
                for (let line = a - h; line < a + w; line += 6) { c.moveTo(line, middle + h / 2); c.lineTo(line + h, middle - h / 2); }
                c.stroke(); c.restore();
              }
              c.globalAlpha = 1;
            }
            const mark = x(end);
            if (row.e !== null && mark > names && mark < width) {
              c.fillStyle = row.f && !row.o ? colors.bad : colors.quiet;
              c.fillText(row.l ? '…' : row.f && !row.o ? '✕ ' + row.f : row.o, mark + 5, middle);
            }
            c.fillStyle = colors.card; c.fillRect(0, y, names, rowHeight);
            if (row.i === chosen) { c.fillStyle = colors.hover; c.fillRect(0, y, names, rowHeight); }
            c.fillStyle = colors[row.s[1] ? 'slow' : 'fast']; c.fillRect(names - 6, y + 3, 3, rowHeight - 6);
            c.fillStyle = colors.ink;
            c.fillText(textOf(c, urlParts(row.k)[1], names - 22), 8, middle);
          }
          c.fillStyle = colors.line; c.fillRect(0, axis - 1, width, 1);
          if (list.length > inView()) {
            const part = (height - axis) / list.length;
            c.fillStyle = colors.quiet; c.globalAlpha = 0.5;
            c.fillRect(width - 5, axis + top * part, 4, Math.max(12, inView() * part)); c.globalAlpha = 1;
          }
          set($('span-count'), `${count(list.length)} ${list.length === 1 ? 'fetch' : 'fetches'}`);
          $('follow').setAttribute('aria-pressed', follow);
        };
        const stop = () => { follow = false; dirty = true; };
        const zoom = (factor, at = nameWidth() + plotWidth() / 2) => {
          const time = from + (at - nameWidth()) * perPixel;
          perPixel = Math.min(60000, Math.max(0.05, perPixel * factor));
          if (!follow) from = time - (at - nameWidth()) * perPixel;
          dirty = true;
        };
        const fit = () => {
          const list = rows();
          if (!list.length) return;
          const first = list.reduce((least, row) => Math.min(least, row.s[2]), Infinity);
          const last = list.reduce((most, row) => Math.max(most, row.e ?? clock), 0);
          perPixel = Math.max(0.05, (last - first) / (plotWidth() * 0.9));
          from = first - perPixel * plotWidth() * 0.02;
          stop();
        };
        $('zoom-in').onclick = () => zoom(0.5); $('zoom-out').onclick = () => zoom(2); $('fit').onclick = fit;
        $('follow').onclick = () => { follow = !follow; dirty = true; };
        $('find').oninput = () => { dirty = true; };
        chart.addEventListener('wheel', event => {
          event.preventDefault();
          if (event.ctrlKey || event.metaKey) return zoom(Math.exp(event.deltaY / 300), event.offsetX);
          from += event.deltaX * perPixel;
          top += event.deltaY / rowHeight;
          stop();
        }, { passive: false });
        let drag = null;
        chart.addEventListener('pointerdown', event => { drag = { x: event.clientX, y: event.clientY, from, top, moved: false }; });
        chart.addEventListener('pointermove', event => {
          if (!drag || !event.buttons) return;
          const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
          if (!drag.moved && Math.hypot(dx, dy) < 4) return;
          if (!drag.moved) chart.setPointerCapture(event.pointerId);
          drag.moved = true;
          from = drag.from - dx * perPixel; top = drag.top - dy / rowHeight;
          stop();
        });
        chart.addEventListener('pointerup', event => {
          const wasDrag = drag?.moved;
          drag = null;
          if (wasDrag) return;
          const y = event.clientY - chart.getBoundingClientRect().top - axis;
          const row = rows()[Math.floor(y / rowHeight + top)];
          if (y >= 0 && row) choose(row.i);
        });
        chart.addEventListener('keydown', event => {
          const list = rows(), index = list.findIndex(row => row.i === chosen), pan = plotWidth() * perPixel / 8;
          const move = to => {
            const row = list[Math.max(0, Math.min(list.length - 1, to))];
            if (!row) return;
            choose(row.i);
            const place = list.indexOf(row);
            if (place < top) top = place;
            if (place >= top + inView()) top = place - inView() + 1;
          };
          const act = {
            ArrowDown: () => move(index < 0 ? Math.floor(top) : index + 1), ArrowUp: () => move(index < 0 ? Math.floor(top) : index - 1),
            PageDown: () => move(index + inView()), PageUp: () => move(index - inView()), Home: () => move(0),
            End: () => move(list.length - 1), ArrowLeft: () => { from -= pan; }, ArrowRight: () => { from += pan; },
            '+': () => zoom(0.5), '=': () => zoom(0.5), '-': () => zoom(2), 0: fit,
          }[event.key];
          if (!act || event.ctrlKey || event.altKey || event.metaKey) return;
          event.preventDefault();
          if (!['+', '=', '-'].includes(event.key)) stop();
          act();
          dirty = true;
        });
        for (const [style, text] of [['wait', 'waits'], ['look', 'looks in the cache'], ['fast', 'urgent transfer'],
          ['slow', 'prefetch'], ['held', 'held back for urgent work'], ['park', 'parked: network or retry']]) {
          $('legend').append(el('li', {}, el('i', { class: 'l-' + style }), text));
        }
        const choose = id => { chosen = id; dirty = true; story(); };
        const open = id => {
          location.hash = '#timeline';
          choose(id);
          const index = rows().findIndex(row => row.i === id);
          if (index >= 0) top = index - inView() / 2;
        };
        const meter = m => {
          const parts = [['DNS', m.dns], ['connect', m.connect], ['TLS', m.tls], ['first byte', m.first], ['body', m.total]];
          const bar = el('div', { class: 'meter', 'aria-hidden': 'true' }), texts = [];
          let before = 0;
          parts.forEach(([name, until], index) => {
            if (until <= before) return;
            const part = el('span', { class: 'm' + index });
            part.style.flex = String(until - before);
            bar.append(part);
            texts.push(`${name} ${span(until - before)}`);
            before = until;
          });
          const more = [m.version, m.reused ? 'connection used before' : '', bytes(m.bytes) + ' over the network'];
          return [bar, el('p', {}, texts.join(' · ')), el('p', {}, more.filter(text => text).join(', '))];
        };
        let asking = false, toldStory = 0, storyOf = null;
        const story = async () => {
          if (asking || chosen === null) return;
          asking = true;
          toldStory = performance.now();
          const id = chosen;
          shownRow = fetches.get(id);
          try {
            const reply = await fetch('fetch?id=' + id), box = $('story');
            if (!reply.ok) {
              storyOf = null;
              return box.replaceChildren(el('h3', {}, 'Nothing is known of this fetch'),
                el('p', {}, 'It began before the page was opened, or has left the list.'));
            }
            const { row, callers, pieces, omitted } = await reply.json(), start = row.s[2];
            if (id !== chosen) return;
            const at = time => '+' + span(Math.max(0, time - start));
            const end = row.e === null ? 'under way' : `${row.l ? 'not recorded to its end,' : row.o || row.f || 'ended without an answer'} after ${span(row.e - start)}`;
            const phases = ['waited', 'looked in the cache', 'transferred', 'was held back', 'was parked'];
            const steps = [];
            for (let i = 0; i < row.s.length; i += 3) {
              const until = i + 5 < row.s.length ? row.s[i + 5] : row.e ?? clock;
              steps.push(el('li', {}, `${at(row.s[i + 2])} ${phases[row.s[i]]} for ${span(until - row.s[i + 2])} `,
                el('span', { class: 'queue ' + (row.s[i + 1] ? 'slow' : 'fast') }, row.s[i + 1] ? 'slow' : 'urgent')));
            }
            // What can have the focus stays while the rest is replaced.
            if (storyOf !== id) box.replaceChildren(el('div'), el('p', { class: 'actions' },
              el('button', { type: 'button', onclick: () => { chosen = storyOf = null; box.replaceChildren();
                dirty = true; chart.focus(); } }, 'Close')));
            storyOf = id;
            box.firstElementChild.replaceChildren(
              el('h3', {}, row.k), el('p', {}, end),
              el('h4', {}, `Who asked (${count(row.c)})`),
              el('ol', {}, ...callers.map(caller => el('li', {}, `${at(caller.b)} ${caller.q === 'fast' ? 'an urgent call' : 'a prefetch'}`
                + (caller.e === null ? ', waits' : `: ${caller.r} after ${span(caller.e - caller.b)}`)))),
              el('h4', {}, 'What happened'), el('ol', {}, ...steps),
              el('h4', {}, 'Work'),
              el('ol', {}, ...pieces.map(piece => el('li', {},
                `${at(piece.b)} ${piece.n}: ` + (piece.e === null ? 'under way' : `${piece.r} after ${span(piece.e - piece.b)}`),
                ...piece.m.flatMap(meter)))),
              omitted ? el('p', {}, `${count(omitted)} more are not kept.`) : '');
          } catch { /* The status line tells of a lost connection. */ } finally {
            asking = false; dirty = true;
            if (chosen !== id) story();
          }
        };

        // Entries
        const page = { search: '', order: 'used', up: 0, offset: 0, limit: 50, total: 0 };
        const freshness = value => value === null ? '' : value === 'always' ? 'no limit' : value === 'ask' ? 'must ask'
          : value > 0 ? 'fresh for ' + span(value * 1000) : 'must ask, stale for ' + span(-value * 1000);
        let loading = new AbortController();
        const load = async () => {
          loading.abort();
          const turn = loading = new AbortController();
          set($('place'), 'Loading…');
          const query = new URLSearchParams({ search: page.search, order: page.order, up: page.up, offset: page.offset,
            limit: page.limit });
          let reply;
          try {
            const answer = await fetch('entries?' + query, { signal: turn.signal });
            if (!answer.ok) return set($('place'), (await answer.text()).trim());
            reply = await answer.json();
          } catch { if (turn === loading) set($('place'), 'No connection'); return; }
          if (turn !== loading) return;
          // A search counts no further.
          const isMore = page.search && reply.total > 10000, total = isMore ? 'more than 10,000' : count(reply.total);
          set($('place'), reply.total ? `${count(page.offset + 1)}–${count(page.offset + reply.rows.length)} of ${total}`
            : 'There is no such entry.');
          $('first').disabled = $('back').disabled = page.offset === 0;
          $('next').disabled = reply.rows.length < page.limit || !isMore && page.offset + reply.rows.length >= reply.total;
          for (const head of document.querySelectorAll('#list th[data-order]')) {
            if (head.dataset.order === page.order) head.setAttribute('aria-sort', page.up ? 'ascending' : 'descending');
            else head.removeAttribute('aria-sort');
          }
          $('list').tBodies[0].replaceChildren(...reply.rows.map(entry => el('tr', {},
            el('td', { class: 'thumb' }, /^image\/(jpeg|png|gif|webp|avif)/.test(entry.type)
              ? el('img', { alt: '', loading: 'lazy', onerror: event => event.target.remove(), src: 'thumbnail?key=' + entry.i }) : ''),
            el('td', { class: 'what' }, el('button', { type: 'button', onclick: event => details(entry, event.currentTarget) },
              ...what(entry.u)), entry.made ? ' (processed)' : ''),
            el('td', { class: 'wide' }, entry.type.split(';')[0]),
            el('td', { class: 'number' }, bytes(entry.n)),
            el('td', { class: 'number wide' }, ago(entry.stored)),
            el('td', { class: 'number wide' }, ago(entry.used)),
            el('td', { class: 'number wide' }, count(entry.hits)),
            el('td', {}, freshness(entry.fresh)),
            el('td', { class: 'wide' }, [entry.tiers & 2 ? 'memory' : '', entry.tiers & 1 ? 'disk' : ''].filter(t => t).join(', ')))));
        };
        const post = async (path, query) => {
          const reply = await fetch(path + '?' + new URLSearchParams(query), { method: 'POST', headers: { 'X-Dipper': '1' } });
          if (!reply.ok) throw new Error((await reply.text()).trim());
        };
        const details = async (entry, button) => {
          document.querySelector('#list tr.chosen')?.classList.remove('chosen');
          button.closest('tr').classList.add('chosen');
          const reply = await fetch('entry?key=' + entry.i), box = $('entry');
          const said = el('p', { role: 'status' });
          const act = (text, action, danger) => el('button', { type: 'button', class: danger ? 'danger' : '', disabled: readOnly,
            onclick: async () => { try { set(said, await action()); } catch (error) { set(said, error.message); } } }, text);
          const curl = "curl --globoff --compressed --url '" + entry.u.replace(/'/g, "'\\''") + "'";
          if (!reply.ok) return box.replaceChildren(el('h3', {}, entry.u), el('p', {}, (await reply.text()).trim()));
          const about = await reply.json();
          const facts = [['Status', String(about.status)], ['Size', bytes(about.bytes)],
            ['Freshness', freshness(about.fresh)], ['Stored', ago(entry.stored)],
            ['Hits', `${count(entry.hits)} since a page is open`],
            ['Leaves', entry.expires === null ? 'when room is needed' : `in ${span(entry.expires * 1000)} at the latest`]];
          box.replaceChildren(
            el('h3', {}, entry.u),
            el('div', { class: 'actions' },
              readOnly ? '' : el('a', { class: 'button', href: 'body?key=' + entry.i, download: '' }, 'Download'),
              act('Ask the server', async () => { await post('entry', { do: 'revalidate', key: entry.i }); return 'The server is being asked.'; }),
              el('button', { type: 'button', disabled: !/^https?:/i.test(entry.u), onclick: async () => {
                try { await navigator.clipboard.writeText(curl); set(said, 'Copied; secrets are left out.'); } catch { set(said, curl); }
              } }, 'Copy as curl'),
              act('Remove', async () => { await post('entry', { do: 'remove', key: entry.i }); load(); return 'The entry is removed.'; }, true)),
            said,
            el('table', {}, el('tbody', {}, ...facts.map(([name, value]) => el('tr', {}, el('th', { scope: 'row' }, name), el('td', {}, value))))),
            el('h4', {}, 'Header fields'),
            el('table', {}, el('tbody', {}, ...about.fields.map(([name, value]) =>
              el('tr', {}, el('th', { scope: 'row' }, name), el('td', {}, value))))));
          if (!entry.plain) box.querySelectorAll('button')[0].disabled = true;
        };
        let typing;
        $('search').oninput = event => {
          clearTimeout(typing);
          typing = setTimeout(() => { page.search = event.target.value.trim(); page.offset = 0; load(); }, 250);
        };
        $('reload').onclick = load;
        $('first').onclick = () => { page.offset = 0; load(); };
        $('back').onclick = () => { page.offset = Math.max(0, page.offset - page.limit); load(); };
        $('next').onclick = () => { page.offset += page.limit; load(); };
        for (const head of document.querySelectorAll('#list th[data-order]')) head.firstElementChild.onclick = () => {
          page.up = page.order === head.dataset.order ? 1 - page.up : head.dataset.order === 'url' ? 1 : 0;
          page.order = head.dataset.order; page.offset = 0;
          load();
        };

        // Totals
        const plot = (name, values, text) => {
          let item = [...$('plots').children].find(item => item.dataset.name === name);
          if (!item) {
            const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
            svg.setAttribute('viewBox', '0 0 120 50'); svg.setAttribute('preserveAspectRatio', 'none'); svg.setAttribute('aria-hidden', 'true');
            svg.append(document.createElementNS('http://www.w3.org/2000/svg', 'path'));
            item = el('li', {}, el('p', {}, name + ' ', el('b')), svg);
            item.dataset.name = name;
            $('plots').append(item);
          }
          const most = Math.max(...values, 1e-9), left = 120 - values.length;
          const points = values.map((value, index) => `${left + index + 1} ${(49 - 46 * value / most).toFixed(1)}`);
          item.querySelector('path').setAttribute('d', values.length ? `M${left + 1} 50L${points.join('L')}L120 50Z` : '');
          set(item.querySelector('b'), values.length ? `${text(values.at(-1))}, most ${text(most < 1e-6 ? 0 : most)}` : 'no data yet');
        };
        const fill = (table, lines) => sync($(table).tBodies[0], lines, line => line[0],
          line => el('tr', {}, el('th', { scope: 'row' }, line[0]), ...line.slice(1).map(() => el('td', { class: 'number' }))),
          (row, line) => line.slice(1).forEach((text, index) => set(row.cellTexts[index + 1], text)));
        const drawTotals = () => {
          if (!cache) return;
          const [memory, disk, shared, revalidated, stale, network, provider, failed] = cache.hits;
          const good = memory + disk + shared + revalidated + stale, calls = good + network + provider;
          const size = network ? cache.bytes / network : cache.disk[1] ? cache.disk[0] / cache.disk[1] : 0;
          tiles($('sums'), [
            ['Hit rate', calls ? percent(good / calls) : '–', `${count(calls)} answers`],
            ['From memory', calls ? percent(memory / calls) : '–', count(memory)],
            ['From disk', calls ? percent(disk / calls) : '–', count(disk)],
            ['Bytes fetched', bytes(cache.bytes), `${count(cache.requests)} requests`],
            ['Bytes saved, about', bytes(good * size), `${count(good)} × ${bytes(size)}`],
            ['Failed calls', count(failed), 'cancelled ones included', failed > 0],
          ]);
          const list = rates();
          plot('Answers a second', list.map(rate => rate.answers), value => count(Math.round(value)));
          plot('Bytes a second', list.map(rate => rate.bytes), bytes);
          plot('Fetches waiting', list.map(rate => rate.waiting), count);
          plot('Fetches running', list.map(rate => rate.running), count);
          fill('tiers', [['memory', memory], ['disk', disk], ['shared', shared], ['revalidated', revalidated], ['stale', stale],
            ['network', network], ['provider', provider]].map(([name, n]) => [name, count(n), calls ? percent(n / calls) : '–']));
          if (!sums) return;
          const order = ['call', 'failed call', 'look-up', 'attempt', 'DNS', 'connect', 'TLS', 'first byte', 'body', 'decode', 'step'];
          const rank = name => order.findIndex(start => name.startsWith(start)) + 1 || 99;
          fill('stages', Object.entries(sums.stages).sort(([a], [b]) => rank(a) - rank(b) || (a < b ? -1 : 1)).map(([name, [n, ...times]]) =>
            [name, count(n), ...times.map(span)]));
          const failures = Object.entries(sums.failures).sort((a, b) => b[1] - a[1]);
          fill('failures', failures.map(([name, n]) => [name, count(n)]));
          $('no-failures').hidden = failures.length > 0;
          $('failures').hidden = failures.length === 0;
        };

        // Controls
        const control = async (query, text) => {
          try { await post('control', query); set($('done'), text); } catch (error) { set($('done'), error.message); }
        };
        const sure = async text => {
          set($('sure-text'), text);
          $('sure').returnValue = 'no';
          $('sure').showModal();
          await new Promise(done => $('sure').addEventListener('close', done, { once: true }));
          return $('sure').returnValue === 'yes';
        };
        const panel = (name, ...lines) => el('fieldset', { class: 'panel', disabled: readOnly }, el('legend', {}, name),
          ...lines.map(line => el('div', {}, ...line)));
        const inputs = {};
        for (const [queue, name] of [['fast', 'Urgent queue (fastQueue)'], ['slow', 'Prefetches (slowQueue)']]) {
          const suspended = el('input', { type: 'checkbox', id: queue + '-suspended', onchange: event => control(
            { do: 'suspend', queue, value: event.target.checked ? 1 : 0 }, event.target.checked
              ? `${queue}Queue is suspended: no fetch starts.` : `${queue}Queue goes on.`) });
          const width = el('input', { type: 'number', id: queue + '-width', min: 1, max: 1000, required: true, onchange: event =>
            event.target.reportValidity() && control({ do: 'width', queue, value: event.target.value }, `${queue}Queue runs ${event.target.value} fetches at a time.`) });
          inputs[queue] = { suspended, width };
          $('panels').append(panel(name, [suspended, el('label', { htmlFor: suspended.id }, 'Suspended: no fetch starts')],
            [el('label', { htmlFor: width.id }, 'Fetches at a time'), width]));
        }
        const choice = (id, name, options, action) => {
          const select = el('select', { id, onchange: event => action(event.target.value, event.target.selectedOptions[0].text) },
            ...options.map(([value, text]) => el('option', { value }, text)));
          inputs[id] = select;
          return [el('label', { htmlFor: id }, name), select];
        };
        $('panels').append(panel('Pretend',
          choice('network', 'Network', [['', 'as it is'], ['offline', 'offline'], ['constrained', 'constrained']], (value, text) =>
            control({ do: 'network', value }, `The cache takes the network for: ${text}.`)),
          choice('pressure', 'Memory pressure', [['', 'as it is'], ['normal', 'normal'], ['moderate', 'moderate'], ['severe', 'severe']],
            (value, text) => control({ do: 'pressure', value }, `The cache takes the memory pressure for: ${text}.`))));
        const act = (text, query, question, done, danger) => el('button', { type: 'button', class: danger ? 'danger' : '',
          onclick: async () => {
            const wanted = query(), ask = wanted.value === 0 ? 'All entries leave the disk. Go on?' : question;
            if (wanted.value === null || ask && !await sure(ask)) return;
            control(wanted, done);
          } }, text);
        const amount = (id, value, most) => el('input', { type: 'number', id, min: 0, max: most, step: 'any', required: true, value });
        const megabytes = amount('megabytes', 100, 1e9), days = amount('days', 7, 1e6);
        const times = (input, factor) => input.reportValidity() ? Math.round(input.value * factor) : null;
        $('panels').append(panel('Clean up',
          [el('label', { htmlFor: 'megabytes' }, 'Largest size on disk, in MB'), megabytes, act('Trim', () =>
            ({ do: 'trim', value: times(megabytes, 1e6) }), '', 'The disk is being trimmed.')],
          [el('label', { htmlFor: 'days' }, 'Age in days'), days, act('Remove older', () =>
            ({ do: 'flush', value: times(days, 86400) }), '', 'Older entries are removed.')],
          [act('Clear memory', () => ({ do: 'clearMemory' }), '', 'Memory is cleared.'),
            act('Clear everything', () => ({ do: 'clear' }), 'All entries leave memory and disk. Go on?', 'Everything is cleared.', true),
            act('Cancel all calls', () => ({ do: 'cancel' }), 'All calls of the program end as cancelled. Go on?', 'All calls are cancelled.', true)]));
        $('read-only').hidden = !readOnly;
        const drawControls = () => {
          if (!cache) return;
          const show = (input, name, value) => { if (document.activeElement !== input) input[name] = value; };
          for (const queue of ['fast', 'slow']) {
            show(inputs[queue].suspended, 'checked', cache[queue].suspended);
            show(inputs[queue].width, 'value', cache[queue].width);
          }
          show(inputs.network, 'value', cache.network);
          show(inputs.pressure, 'value', cache.simulatedPressure);
        };

        // Views
        const route = () => {
          const name = location.hash.slice(1);
          view = ['now', 'timeline', 'entries', 'totals', 'controls'].includes(name) ? name : 'now';
          for (const section of document.querySelectorAll('main > section')) section.hidden = section.id !== view;
          for (const link of document.querySelectorAll('nav a')) {
            if (link.hash === '#' + view) link.setAttribute('aria-current', 'page'); else link.removeAttribute('aria-current');
          }
          if (view === 'entries') load();
          requestAnimationFrame(() => scrollTo(0, 0));
          dirty = true;
        };
        addEventListener('hashchange', route);
        addEventListener('resize', () => { dirty = true; });
        const draws = { now: drawNow, timeline: drawChart, totals: drawTotals, controls: drawControls };
        const frame = () => {
          if (dirty) { dirty = false; draws[view]?.(); }
          requestAnimationFrame(frame);
        };
        route();
        connect();
        requestAnimationFrame(frame);
        """#
}
