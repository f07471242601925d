extension InspectorPage {
    /// The colours of the queues are those of ``TimelineStyle``, which colour-blind people can tell apart.
    static let style = """
        :root { color-scheme: light dark; --ink: #1b1f24; --quiet: #57606a; --page: #f6f7f9; --card: #fff;
          --line: #d5dae0; --hover: #eef2f7; --link: #0059a8; --fast: #0072b2; --slow: #b26a00; --fast-pale: #b9d9ec;
          --slow-pale: #f6dca6; --look: #8c959f; --bad: #b3093c; --good: #1a7040; --focus: #0059a8; }
        @media (prefers-color-scheme: dark) { :root { --ink: #e7ebf0; --quiet: #a3adb8; --page: #0f1317; --card: #181d23;
          --line: #313942; --hover: #222931; --link: #6cb6ff; --fast: #4aa8de; --slow: #e6a63a; --fast-pale: #1f4c68;
          --slow-pale: #5d4415; --look: #77828d; --bad: #ff7b95; --good: #56c98a; --focus: #8fc7ff; } }
        * { box-sizing: border-box; }
        html { font: 15px/1.45 system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif;
          background: var(--page); color: var(--ink); -webkit-text-size-adjust: 100%; }
        body { margin: 0; }
        [hidden] { display: none !important; }
        .hidden, .skip:not(:focus) { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%);
          white-space: nowrap; }
        .skip { position: absolute; z-index: 3; padding: .5rem 1rem; background: var(--card); color: var(--link); }
        :focus-visible { outline: 2px solid var(--focus); outline-offset: 2px; }
        main:focus { outline: none; }
        header { position: sticky; top: 0; z-index: 2; display: flex; flex-wrap: wrap; align-items: center; gap: .25rem 1.25rem;
          padding: .5rem max(1rem, calc(50vw - 44rem)); background: var(--card); border-bottom: 1px solid var(--line); }
        h1 { margin: 0; font-size: 1.1rem; font-weight: 650; letter-spacing: .01em; white-space: nowrap; }
        h1 span { font-weight: 400; font-size: .82rem; color: var(--quiet); margin-left: .3rem; }
        h2 { margin: 0 0 .75rem; font-size: 1.25rem; } h3 { margin: 1.5rem 0 .5rem; font-size: 1rem; }
        nav { display: flex; gap: .15rem; overflow-x: auto; }
        nav a { padding: .4rem .7rem; border-radius: .4rem; color: var(--ink); text-decoration: none; }
        nav a:hover { background: var(--hover); }
        nav a[aria-current] { background: var(--fast); color: var(--card); }
        #link { margin: 0 0 0 auto; font-size: .85rem; color: var(--quiet); white-space: nowrap; }
        #link::before { content: ''; display: inline-block; width: .55rem; height: .55rem; margin-right: .4rem;
          border-radius: 50%; background: var(--look); }
        #link.live::before { background: var(--good); } #link.lost { color: var(--bad); }
        #link.lost::before { background: var(--bad); }
        main { max-width: 90rem; margin: 0 auto; padding: 1.1rem 1rem 3rem; }
        .tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(10.5rem, 1fr)); gap: .6rem; margin: 0; }
        .tiles div { display: flex; flex-direction: column; padding: .6rem .8rem; background: var(--card);
          border: 1px solid var(--line); border-radius: .55rem; min-width: 0; }
        .tiles dt { font-size: .82rem; color: var(--quiet); }
        .tiles dd { margin: 0; font-size: 1.25rem; font-weight: 600; font-variant-numeric: tabular-nums;
          overflow-wrap: anywhere; }
        .tiles dd.more { font-size: .8rem; font-weight: 400; color: var(--quiet); }
        .tiles .warn dd:first-of-type { color: var(--bad); }
        .scroll { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: .55rem; }
        table { width: 100%; border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
        .columns table { background: var(--card); border: 1px solid var(--line); border-radius: .55rem;
          border-collapse: separate; border-spacing: 0; }
        th, td { padding: .35rem .6rem; text-align: left; vertical-align: middle; border-bottom: 1px solid var(--line); }
        tbody tr:last-child td, tbody tr:last-child th { border-bottom: 0; }
        thead th { font-weight: 600; color: var(--quiet); white-space: nowrap; font-size: .82rem; }
        thead button { all: unset; cursor: pointer; } thead button:hover { color: var(--ink); text-decoration: underline; }
        thead button:focus-visible { outline: 2px solid var(--focus); outline-offset: 2px; }
        th[aria-sort=ascending] button::after { content: ' ↑'; } th[aria-sort=descending] button::after { content: ' ↓'; }
        .number { text-align: right; white-space: nowrap; }
        td.what { overflow-wrap: anywhere; min-width: 11rem; }
        td.what span { color: var(--quiet); }
        td.what button { all: unset; cursor: pointer; color: var(--link); overflow-wrap: anywhere; }
        td.what button:hover { text-decoration: underline; }
        td.what button:focus-visible { outline: 2px solid var(--focus); outline-offset: 2px; }
        tr.chosen { background: var(--hover); }
        .queue, .source { display: inline-block; padding: .05rem .5rem; border-radius: 1rem; font-size: .8rem;
          border: 1px solid currentColor; white-space: nowrap; }
        .fast { color: var(--fast); } .slow { color: var(--slow); } .bad { color: var(--bad); } .good { color: var(--good); }
        progress { width: 5.5rem; height: .55rem; vertical-align: middle; accent-color: var(--fast); }
        .empty, .note { color: var(--quiet); font-size: .9rem; }
        .bar { display: flex; flex-wrap: wrap; align-items: center; gap: .5rem; margin-bottom: .6rem; }
        input, select, button { font: inherit; color: inherit; }
        .bar button, .panel button, aside button, aside a.button, dialog button { padding: .3rem .75rem; cursor: pointer;
          background: var(--card); border: 1px solid var(--quiet); border-radius: .4rem; text-decoration: none;
          color: var(--ink); display: inline-block; }
        .bar button:hover, .panel button:hover, aside button:hover, aside a.button:hover { background: var(--hover); }
        button:disabled { opacity: .55; cursor: not-allowed; }
        button[aria-pressed=true] { background: var(--fast); border-color: var(--fast); color: var(--card); }
        button.danger { color: var(--bad); border-color: var(--bad); }
        input, select { padding: .3rem .5rem; background: var(--card); border: 1px solid var(--quiet); border-radius: .4rem;
          max-width: 100%; }
        input[type=number] { width: 6rem; } input[type=checkbox] { width: 1.1rem; height: 1.1rem; vertical-align: -.15rem; }
        .split { display: grid; grid-template-columns: minmax(0, 1fr); gap: .8rem; }
        .split:has(aside:not(:empty)) { grid-template-columns: minmax(0, 1fr) minmax(19rem, 26rem); }
        aside:empty { display: none; }
        aside { padding: .8rem 1rem; background: var(--card); border: 1px solid var(--line); border-radius: .55rem;
          font-size: .9rem; overflow-wrap: anywhere; align-self: start; }
        aside h3 { margin: 0 0 .4rem; font-size: .98rem; } aside h4 { margin: .9rem 0 .25rem; font-size: .88rem; }
        aside ol { margin: 0; padding: 0; list-style: none; }
        aside li { padding: .3rem 0; border-top: 1px solid var(--line); } aside li:first-child { border-top: 0; }
        aside li p { margin: 0; color: var(--quiet); } aside .actions { display: flex; flex-wrap: wrap; gap: .4rem; }
        aside table { font-size: .85rem; } aside th { font-weight: 500; color: var(--quiet); }
        .meter { display: flex; height: .5rem; margin: .25rem 0; border-radius: .25rem; overflow: hidden;
          background: var(--hover); }
        .m0 { background: #7f8ea3; } .m1 { background: #56b4e9; } .m2 { background: #cc79a7; } .m3 { background: var(--slow); }
        .m4 { background: var(--fast); }
        #chart { position: relative; height: min(65vh, 46rem); background: var(--card); border: 1px solid var(--line);
          border-radius: .55rem; overflow: hidden; touch-action: none; cursor: grab; }
        canvas { display: block; width: 100%; height: 100%; }
        .legend { display: flex; flex-wrap: wrap; gap: .15rem 1rem; margin: 0 0 .5rem; padding: 0; list-style: none;
          font-size: .82rem; color: var(--quiet); }
        .legend i { display: inline-block; width: 1.3rem; height: .6rem; margin-right: .35rem; border-radius: .1rem; }
        .l-fast { background: var(--fast); } .l-slow { background: var(--slow); } .l-wait { background: var(--fast-pale); }
        .l-look { background: var(--look); } .l-park { border: 1px dashed var(--quiet); }
        .l-held { background: repeating-linear-gradient(135deg, var(--slow) 0 3px, var(--card) 3px 6px); }
        .thumb { width: 44px; height: 44px; padding: 2px .3rem; } .thumb img { display: block; width: 40px; height: 40px;
          object-fit: contain; border-radius: .2rem; background: var(--hover); }
        .columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(20rem, 100%), 1fr)); gap: .2rem 1.2rem;
          align-items: start; }
        .share { display: inline-block; height: .55rem; margin-right: .4rem; background: var(--fast); border-radius: .15rem;
          max-width: 6rem; vertical-align: middle; }
        .plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(17rem, 100%), 1fr)); gap: .6rem; margin: 0;
          padding: 0; list-style: none; }
        .plots li { padding: .6rem .8rem; background: var(--card); border: 1px solid var(--line); border-radius: .55rem; }
        .plots p { margin: 0; font-size: .82rem; color: var(--quiet); display: flex; justify-content: space-between; }
        .plots b { color: var(--ink); font-variant-numeric: tabular-nums; }
        .plots svg { display: block; width: 100%; height: 56px; } .plots path { fill: var(--fast-pale); stroke: var(--fast);
          stroke-width: 1.5; vector-effect: non-scaling-stroke; }
        fieldset.panel { min-width: 0; margin: 0 0 1rem; padding: .8rem 1rem 1rem; background: var(--card);
          border: 1px solid var(--line); border-radius: .55rem; }
        .panel legend { padding: 0 .4rem; font-weight: 600; }
        .panel > div { display: flex; flex-wrap: wrap; align-items: center; gap: .4rem .7rem; margin-top: .55rem; }
        dialog { max-width: 26rem; padding: 1rem 1.2rem; background: var(--card); color: var(--ink);
          border: 1px solid var(--line); border-radius: .6rem; } dialog::backdrop { background: rgb(0 0 0 / .45); }
        @media (max-width: 46rem) { .wide { display: none; } html { font-size: 14px; } header { padding: .5rem .8rem; }
          main { padding: .8rem .8rem 2rem; } .split, .split:has(aside:not(:empty)) { grid-template-columns: minmax(0, 1fr); }
          .tiles { grid-template-columns: repeat(2, minmax(0, 1fr)); } th, td { padding: .35rem .45rem; }
          nav { order: 3; width: 100%; } nav a { padding: .4rem .55rem; } .tiles dd { font-size: 1.1rem; }
          td.what { min-width: 8rem; } progress { width: 3rem; } #chart { height: 55vh; } }
        @media (prefers-reduced-motion: no-preference) { nav a, button { transition: background .12s; } }
        """
}
