<%page expression_filter="h"/>\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>${test}: the plan for ${target}</title>
<style>
${style | n}
</style>
</head>
<body>
<header>
<h1>${test}: the plan for ${target}</h1>
<p class="note">${cores} cores, <code>${flags}</code>. Nothing on this page is measured: cycles are <em>predicted, ${model}</em>;
bytes and commands follow from the plan.</p>
<div class="cards">
% for what, cycles, far, near in figures:
<section class="card"><h2>Per ${what}</h2>
<p class="big">${cycles}</p><p class="note">cycles, <em>predicted, ${model}</em></p>
<dl><dt>L3&#8211;L2</dt><dd>${far}</dd><dt>L2&#8211;L1</dt><dd>${near}</dd></dl></section>
% endfor
</div>
</header>

<main>
<section>
<h2>Memory</h2>
<div class="scroll"><table>
<thead><tr><th>level</th><th class="n">capacity</th><th class="n">used</th><th class="n">lower bound</th><th class="n">gap</th>
<th>reserved for what is no tensor</th></tr></thead>
<tbody>
% for name, capacity, used, bound, gap, reserved in memory:
<tr><td>${name}</td><td class="n">${capacity}</td><td class="n">${used}</td><td class="n">${bound}</td><td class="n">${gap}</td><td>${reserved}</td></tr>
% endfor
</tbody></table></div>
<p class="note">Bytes. The lower bound is the largest sum of bytes that live at one time, reserved ones included: no addresses need less.
The gap is what this plan uses beyond it.</p>
</section>

<section>
<h2>Over time</h2>
<p class="note">From left to right runs the schedule: a column per node, one entry after the other. The first drawings show which addresses
of each level hold what, the next what each nest moves, and the last when, by prediction. Point at anything to learn what it is;
drag to move, Ctrl and wheel or the buttons to zoom.</p>
<p class="tools"><span id="views"></span><button id="in" title="zoom in">+</button><button id="out" title="zoom out">&#8722;</button></p>
<p class="legend">
<span><i class="persist"></i>kept between entries: weights, state, accumulated gradients, data</span>
<span><i class="pass"></i>comes and goes</span>
<span><i class="persist pale"></i><i class="pass pale"></i>pale: buffer that tiles pass through</span>
<span><i class="scratch"></i>scratch of a kernel</span>
<span><i class="fixed"></i>reserved</span></p>
<div id="charts"></div>
<noscript><p>The drawings need JavaScript; the tables below say the same.</p></noscript>
</section>

<section>
<h2>Tile nests</h2>
<p class="note">In the order they run. Tiles: their number, and of each split loop, outermost first, extent / iterations per tile.
<em>Bound by</em>: the part with most predicted cycles. Blocks of a nest and their boxes: press +.</p>
<p><input type="search" data-table="nests" placeholder="filter: node, operator, entry ..." aria-label="filter the nests"></p>
<div class="scroll tall"><table id="nests">
<thead><tr><th></th><th class="n">#</th><th>entry</th><th>node (phases)</th><th>operator</th><th>tiles</th><th>buffering</th><th>bound by</th>
<th class="n">predicted cycles</th><th class="n">L3&#8211;L2 bytes</th><th class="n">L2&#8211;L1 bytes</th></tr></thead>
<tbody>
% for i, nest in enumerate(nests):
<tr><td><button>+</button></td><td class="n">${i}</td><td>${nest["entry"]}</td><td>${nest["node"]}</td><td>${nest["operator"]}</td><td>${nest["tiles"]}</td><td>${nest["buffering"]}</td><td>${nest["bound"]}</td>\
% for text, share in nest["bars"]:
<td class="n bar" style="--p:${share}%">${text}</td>\
% endfor
</tr>
% endfor
</tbody></table></div>
</section>

<section>
<h2>Traffic per tensor</h2>
<p class="note">Bytes that one execution of the entry moves. The reload factor is bytes fetched / bytes of the tensor: every nest that reads
a tensor fetches it once, so more than the number of readers means that a nest fetches it anew; the last column says which and why.</p>
<p><input type="search" data-table="tensors" placeholder="filter: tensor, entry, level, halo ..." aria-label="filter the tensors"></p>
<div class="scroll tall"><table id="tensors">
<thead><tr><th>entry</th><th>tensor</th><th>level</th><th class="n">bytes</th><th class="n">L3&#8594;L2</th><th class="n">factor</th><th class="n">L2&#8594;L3</th>
<th class="n">L2&#8594;L1</th><th class="n">factor</th><th class="n">L1&#8594;L2</th><th class="n">commands</th><th>why more than once</th></tr></thead>
<tbody>
% for row in tensors:
<tr>\
% for cell in row["cells"]:
<td>${cell}</td>\
% endfor
% for number in row["numbers"]:
<td class="n">${number}</td>\
% endfor
<td>\
% for reason in row["reasons"]:
<div>${reason}</div>\
% endfor
</td></tr>
% endfor
</tbody></table></div>
</section>

<section>
<h2>Where everything lives, and why</h2>
<p><input type="search" data-table="places" placeholder="filter: tensor, level, reason ..." aria-label="filter the placements"></p>
<div class="scroll tall"><table id="places">
<thead><tr><th>tensor</th><th>level</th><th class="n">address</th><th class="n">bytes</th><th>live, schedule positions</th><th>why</th></tr></thead>
<tbody>
% for name, level, address, size, live, why in places:
<tr><td>${name}</td><td>${level}</td><td class="n">${address}</td><td class="n">${size}</td><td>${live}</td><td>${why}</td></tr>
% endfor
</tbody></table></div>
</section>
</main>
<div id="tip" hidden></div>
<script type="application/json" id="plan">${data | n}</script>
% for script in scripts:
<script>
${script | n}
</script>
% endfor
</body>
</html>
