import DipperData

/// The page, whole: it asks nobody but its server, and its text comes from the server as text alone.
enum InspectorPage {
    static func html(nonce: String, name: String, isReadOnly: Bool) -> String {
        """
        <!doctype html>
        <html lang="en" data-read-only="\(isReadOnly)">
        <head>
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <meta name="color-scheme" content="light dark">
        <link rel="icon" href="icon.svg">
        <title>Dipper inspector</title>
        <style nonce="\(nonce)">\(style)</style>
        </head>
        <body>
        <a class="skip" href="#main">Skip to the view</a>
        <header>
        <h1>Dipper <span>\(DataCache.libraryVersion) · \(name)</span></h1>
        <nav aria-label="Views">\(views)</nav>
        <p id="link" role="status">Connecting…</p>
        </header>
        <main id="main" tabindex="-1">\(body)</main>
        <script type="module" nonce="\(nonce)">\(script)</script>
        </body>
        </html>

        """
    }

    static let icon = """
        <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="3" fill="#0072b2"/>\
        <path d="M3 4h10M3 8h6M3 12h8" stroke="#fff" stroke-width="2"/></svg>
        """

    private static let views = ["Now", "Timeline", "Entries", "Totals", "Controls"]
        .map { "<a href=\"#\($0.lowercased())\">\($0)</a>" }.joined()

    private static let body = """
        <noscript><p>The inspector needs JavaScript.</p></noscript>
        <section id="now" aria-labelledby="now-title">
        <h2 id="now-title">Now</h2>
        <dl class="tiles" id="tiles"></dl>
        <h3 id="fetches-title">Fetches under way</h3>
        <div class="scroll" role="region" aria-labelledby="fetches-title" tabindex="0"><table id="fetches">
        <thead><tr><th scope="col">Queue</th><th scope="col">State</th><th scope="col">What</th>
        <th scope="col">Why it waits, or how far it is</th>
        <th scope="col" class="number wide">Calls</th><th scope="col" class="number wide">Attempts</th></tr></thead>
        <tbody></tbody></table></div>
        <p class="empty" id="no-fetches">No fetch waits or runs.</p>
        <h3 id="answers-title">Latest answers</h3>
        <div class="scroll" role="region" aria-labelledby="answers-title" tabindex="0"><table id="answers">
        <thead><tr><th scope="col">Answered by</th><th scope="col">What</th><th scope="col" class="wide">Queue</th>
        <th scope="col" class="number">Took</th><th scope="col" class="number wide">At</th></tr></thead>
        <tbody></tbody></table></div>
        <p class="empty" id="no-answers">No call has been answered since the page was opened.</p>
        </section>
        <section id="timeline" aria-labelledby="timeline-title" hidden>
        <h2 id="timeline-title">Timeline</h2>
        <div class="bar">
        <label>Find <input id="find" type="search" autocomplete="off" spellcheck="false"></label>
        <button id="zoom-in" type="button" aria-label="Zoom in">+</button>
        <button id="zoom-out" type="button" aria-label="Zoom out">−</button>
        <button id="fit" type="button">Whole</button>
        <button id="follow" type="button" aria-pressed="true">Follow</button>
        <span id="span-count"></span>
        </div>
        <ul class="legend" id="legend"></ul>
        <div class="split">
        <div id="chart" role="application" tabindex="0" aria-labelledby="timeline-title" aria-describedby="chart-help">
        <canvas id="canvas" aria-hidden="true"></canvas>
        </div>
        <aside id="story" aria-label="Story of the chosen fetch"></aside>
        </div>
        <p id="chart-help" class="note">One row for each fetch. Arrow keys choose a fetch and move in time, + and − zoom, 0
        shows the whole; a wheel zooms with Ctrl held, and dragging moves in time.</p>
        </section>
        <section id="entries" aria-labelledby="entries-title" hidden>
        <h2 id="entries-title">Entries</h2>
        <div class="bar">
        <label>Search in URLs <input id="search" type="search" autocomplete="off" spellcheck="false"></label>
        <button id="reload" type="button">Reload</button>
        <button id="first" type="button">First</button><button id="back" type="button">Back</button>
        <button id="next" type="button">Next</button>
        <span id="place" role="status"></span>
        </div>
        <div class="split">
        <div class="scroll" role="region" aria-label="List of entries" tabindex="0"><table id="list">
        <thead><tr><th scope="col"><span class="hidden">Picture</span></th>
        <th scope="col" data-order="url"><button type="button">URL</button></th>
        <th scope="col" class="wide">Type</th>
        <th scope="col" class="number" data-order="size"><button type="button">Size</button></th>
        <th scope="col" class="number wide" data-order="stored"><button type="button">Stored</button></th>
        <th scope="col" class="number wide" data-order="used"><button type="button">Used</button></th>
        <th scope="col" class="number wide" title="Calls that the cache has answered since a page is open">Hits</th>
        <th scope="col">Freshness</th><th scope="col" class="wide">Where</th></tr></thead>
        <tbody></tbody></table></div>
        <aside id="entry" aria-live="polite" aria-label="The chosen entry"></aside>
        </div>
        </section>
        <section id="totals" aria-labelledby="totals-title" hidden>
        <h2 id="totals-title">Totals</h2>
        <dl class="tiles" id="sums"></dl>
        <h3>The last two minutes</h3>
        <ul class="plots" id="plots"></ul>
        <div class="columns">
        <div><h3 id="tiers-title">Answers by source</h3>
        <table id="tiers" aria-labelledby="tiers-title"><thead><tr><th scope="col">Source</th>
        <th scope="col" class="number">Calls</th><th scope="col" class="number">Share</th></tr></thead>
        <tbody></tbody></table></div>
        <div><h3 id="stages-title">Times of what was recorded</h3>
        <table id="stages" aria-labelledby="stages-title"><thead><tr><th scope="col">Stage</th>
        <th scope="col" class="number">Count</th><th scope="col" class="number">p50</th>
        <th scope="col" class="number">p95</th><th scope="col" class="number">p99</th></tr></thead>
        <tbody></tbody></table></div>
        <div><h3 id="failures-title">Failures by reason</h3>
        <table id="failures" aria-labelledby="failures-title"><thead><tr><th scope="col">Reason</th>
        <th scope="col" class="number">Calls</th></tr></thead><tbody></tbody></table>
        <p class="empty" id="no-failures">No call has failed since the page was opened.</p></div>
        </div>
        </section>
        <section id="controls" aria-labelledby="controls-title" hidden>
        <h2 id="controls-title">Controls</h2>
        <p class="note" id="read-only" hidden>This inspector is read-only: the program does not let its page change anything.</p>
        <div class="columns" id="panels"></div>
        <p id="done" role="status"></p>
        </section>
        <dialog id="sure" aria-labelledby="sure-text"><form method="dialog"><p id="sure-text"></p>
        <button value="no">Cancel</button> <button value="yes" class="danger">Go on</button></form></dialog>
        """
}
