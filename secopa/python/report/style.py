# SPDX-License-Identifier: Apache-2.0
"""The style sheet of the page, for light and dark screens."""

STYLE = """
:root { color-scheme: light dark; --ink: #1d2330; --paper: #ffffff; --faint: #edf0f5; --line: #c9d0dc; --soft: #5b6577;
  --gradients: #4c78a8; --encode: #f58518; --merge: #eeca3b; --decode: #e45756; --send: #54a24b; --recv: #83bcb6;
  --waiting: #b8bfcc; --predicted: #9ecae9; --measured: #4c78a8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9f0; --paper: #14181f; --faint: #1f2530; --line: #3a4355;
  --soft: #9aa5b8; --waiting: #4b5568; --predicted: #2f5f86; --measured: #7fb2e0; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 1140px;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; margin: 0; } h2 { font-size: 1.25rem; margin: 2.2rem 0 .4rem; }
p { max-width: 46rem; margin: .4rem 0; } .lead { font-size: 1.1rem; } .soft { color: var(--soft); }
svg { width: 100%; height: auto; display: block; margin: .6rem 0; font-size: 12px; fill: var(--ink); }
svg text { fill: var(--ink); } svg text.inside { fill: #10141c; font-weight: 600; } svg text.rank { font-weight: 600; }
.lane { fill: var(--faint); } .mark { stroke: var(--line); stroke-width: 1; }
.backward, .gradients { fill: var(--gradients); background: var(--gradients); }
.encode, .compute { fill: var(--encode); background: var(--encode); }
.merge { fill: var(--merge); background: var(--merge); }
.decode { fill: var(--decode); background: var(--decode); }
.send, .network { fill: var(--send); background: var(--send); } .recv { fill: var(--recv); background: var(--recv); }
.waiting { fill: var(--waiting); background: var(--waiting); }
.predicted { fill: var(--predicted); background: var(--predicted); }
.measured { fill: var(--measured); background: var(--measured); }
.timeline .send, .timeline .recv { opacity: .6; }
.key { display: inline-block; width: .8rem; height: .8rem; border-radius: 2px; margin: 0 .35rem 0 0; }
.keys { max-width: none; } .keys .key:not(:first-child) { margin-left: 1.1rem; } td:has(.key) { white-space: nowrap; }
.scroll { overflow-x: auto; } .scroll svg { min-width: 760px; }
table { display: block; overflow-x: auto; border-collapse: collapse; font-size: .9rem; margin: .5rem 0; }
th, td { text-align: left; padding: .25rem .7rem .25rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; white-space: nowrap; } .number { text-align: right; white-space: nowrap; }
dt { font-weight: 600; margin-top: .5rem; } dd { margin: 0; max-width: 46rem; }
summary { cursor: pointer; margin: .5rem 0; }
"""
