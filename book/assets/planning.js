/* Sliders for the planning page. The numbers lie in the page (a JSON element); nothing is asked of any server. Without this script
   the page shows its tables. The same rules are in src/localeval/planning.py, and a test holds one against the other. */
(() => {
  "use strict";

  /* Normal distribution: the series of Marsaglia (2004) for the area, and halving for its inverse. */
  function area(x) {
    if (Math.abs(x) > 8) return x > 0 ? 1 : 0;
    let [sum, term] = [x, x];
    for (let i = 3; Math.abs(term) > 1e-17 * Math.abs(sum) && i < 400; i += 2) sum += term *= (x * x) / i;
    return 0.5 + (sum * Math.exp((-x * x) / 2)) / Math.sqrt(2 * Math.PI);
  }

  function quantile(p) {
    let [low, high] = [-8, 8];
    for (let i = 0; i < 80; i++) {
      const middle = (low + high) / 2;
      if (area(middle) < p) low = middle;
      else high = middle;
    }
    return (low + high) / 2;
  }

  const sumOfZ = (alpha, power) => quantile(1 - alpha / 2) + quantile(power);
  const minimumEffect = (n, sd, alpha, power) => (sumOfZ(alpha, power) * sd) / Math.sqrt(n);
  const questionsNeeded = (effect, sd, alpha, power) =>
    Math.ceil(((sumOfZ(alpha, power) * sd) / effect) ** 2 - 1e-9);
  const powerOf = (effect, n, sd, alpha) => {
    const [shift, z] = [(effect * Math.sqrt(n)) / sd, quantile(1 - alpha / 2)];
    return area(shift - z) + area(-shift - z);
  };

  /* The same where questions share documents: a design effect widens the spread by its root. */
  const widened = (sd, design) => sd * Math.sqrt(Math.max(1, design));
  function shared(design, n, effect, sd, alpha, power) {
    if (design === null) return "";
    const wide = widened(sd, design);
    return (
      ` Counting that questions share documents (design effect ${fixed(design, 2)}), the smallest is ${fixed(minimumEffect(n, wide, alpha, power), 3)}, ` +
      `and ${questionsNeeded(effect, wide, alpha, power).toLocaleString("en")} questions are needed.`
    );
  }

  const mean = (row) => row.reduce((sum, value) => sum + value, 0) / row.length;

  /* Every system against the best of all: a row each with its state. */
  function survivors(data, cut, budget, margin) {
    const table = data.values[cut].map((row) => row.map((value) => value / data.scale));
    const means = table.map(mean);
    let best = 0;
    means.forEach((value, i) => {
      const ahead = Math.round(value * 1e9) - Math.round(means[best] * 1e9);
      if (ahead > 0 || (ahead === 0 && data.p95[i] < data.p95[best])) best = i;
    });
    return data.systems.map((system, i) => {
      const apart = table[i].map((value, q) => value - table[best][q]);
      const difference = mean(apart);
      const spread = Math.sqrt(apart.reduce((sum, d) => sum + (d - difference) ** 2, 0) / (apart.length - 1));
      const bound = data.t === null ? NaN : difference - (data.t * spread) / Math.sqrt(apart.length);
      const fast = data.p95[i] <= budget;
      const shown = bound >= -margin - 1e-9 ? "as good" : "not shown to be as good";
      const state = i === best ? (fast ? "best" : "best, too slow") : fast ? shown : "too slow";
      return { system, mean: means[i], p95: data.p95[i], difference, bound, state };
    });
  }

  function choice(rows) {
    const left = rows.filter((row) => row.state === "best" || row.state === "as good");
    return left.reduce((first, row) => (first && first.p95 <= row.p95 ? first : row), null)?.system ?? "";
  }

  /* Settings for which this script and the numbers that came with the page differ; there should be none. */
  function wrongExamples(data) {
    const near = (a, b) => Math.abs(a - b) <= 1e-9 * Math.max(1, Math.abs(b));
    const plans = data.examples.plans.filter(
      (one) =>
        !near(minimumEffect(one.n, one.sd, one.alpha, one.power), one.mde) ||
        !near(minimumEffect(one.n, widened(one.sd, one.design), one.alpha, one.power), one.shared) ||
        questionsNeeded(one.effect, one.sd, one.alpha, one.power) !== one.needed,
    );
    const chosen = data.examples.chosen.filter((one) => {
      const rows = survivors(data, one.cut, one.budget, one.margin);
      return rows.some((row, i) => row.state !== one.states[i]) || choice(rows) !== one.choice;
    });
    return plans.length + chosen.length;
  }

  if (typeof module !== "undefined") module.exports = { area, quantile, minimumEffect, questionsNeeded, powerOf, survivors, choice, wrongExamples };
  if (typeof document === "undefined") return;

  /* The page */

  const fixed = (value, digits) => (Number.isFinite(value) ? value.toFixed(digits).replace("-", "−") : "—");
  const signed = (value) => (value > 0 ? "+" : "") + fixed(value, 3);

  function element(name, properties, ...children) {
    const made = document.createElement(name);
    Object.entries(properties).forEach(([key, value]) => made.setAttribute(key, value));
    made.append(...children);
    return made;
  }

  /* A slider with its label and its value in words. steps: the values it can take. */
  function slider(id, label, steps, start, text, changed) {
    const nearest = steps.reduce((best, value, i) => (Math.abs(value - start) < Math.abs(steps[best] - start) ? i : best), 0);
    const input = element("input", { type: "range", id, min: 0, max: steps.length - 1, step: 1 });
    const shown = element("output", { for: id });
    input.value = nearest;
    const value = () => steps[Number(input.value)];
    const say = () => {
      shown.textContent = text(value());
      input.setAttribute("aria-valuetext", text(value()));
    };
    input.addEventListener("input", () => {
      say();
      changed();
    });
    say();
    return { box: element("div", { class: "le-plan-row" }, element("label", { for: id }, label), input, shown), value };
  }

  const range = (from, to, step) => Array.from({ length: Math.round((to - from) / step) + 1 }, (_, i) => Math.round((from + i * step) * 1e6) / 1e6);

  function withStart(steps, start) {
    return steps.includes(start) ? steps : [...steps, start].sort((a, b) => a - b);
  }

  function plan(box, data) {
    const said = element("p", { class: "le-plan-said", "aria-live": "polite" });
    const sizes = [...range(5, 100, 5), ...range(110, 500, 10), ...range(550, 2000, 50)];
    const parts = {
      n: slider("plan-n", "Questions", withStart(sizes, data.n), data.n, String, () => show()),
      effect: slider("plan-effect", "True difference to look for", range(0.005, 0.5, 0.005), 0.05, (v) => fixed(v, 3), () => show()),
      sd: slider("plan-sd", "Spread (sd) of the differences", withStart(range(0.02, 1, 0.02), data.sd), data.sd, (v) => fixed(v, 3), () => show()),
      alpha: slider("plan-alpha", "Level alpha, two-sided", [0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2], data.alpha, String, () => show()),
      power: slider("plan-power", "Power", range(0.5, 0.95, 0.05), data.power, (v) => `${Math.round(100 * v)}%`, () => show()),
    };
    function show() {
      const [n, effect, sd, alpha, power] = ["n", "effect", "sd", "alpha", "power"].map((name) => parts[name].value());
      const share = `${Math.round(100 * power)}%`;
      said.textContent =
        `With ${n} questions the smallest true difference that is found in ${share} of studies is ${fixed(minimumEffect(n, sd, alpha, power), 3)}. ` +
        `A difference of ${fixed(effect, 3)} needs ${questionsNeeded(effect, sd, alpha, power).toLocaleString("en")} questions for that; ` +
        `with ${n} it is found in ${fixed(100 * powerOf(effect, n, sd, alpha), 0)}% of them.` +
        shared(data.design, n, effect, sd, alpha, power);
    }
    box.append(...Object.values(parts).map((part) => part.box), said);
    show();
  }

  function choose(box, data) {
    if (!data.systems.length) return;
    const said = element("p", { class: "le-plan-said", "aria-live": "polite" });
    const body = element("tbody", {});
    const head = ["system", `mean ${data.metric}`, "P95 ms", "difference", "lower bound", "state"];
    const cells = head.map((text, i) => element("th", { scope: "col", class: i % 5 ? "le-num" : "le-text" }, text));
    const caption = element("caption", {}, element("span", { class: "le-caption" }, "Every timed system against the best of all. Lower bound: one-sided, of the paired difference."));
    const table = element("table", { class: "le-table" }, caption, element("thead", {}, element("tr", {}, ...cells)), body);
    const cuts = Object.keys(data.values).map(Number).sort((a, b) => a - b);
    const budgets = [...new Set([...data.p95.map((ms) => Math.ceil(ms * 10) / 10), data.budget])].sort((a, b) => a - b);
    const parts = {
      cut: slider("plan-cut", "First k hits", cuts, cuts[cuts.length - 1], String, () => show()),
      budget: slider("plan-budget", "Budget: P95 per question", budgets, data.budget, (v) => `${fixed(v, 1)} ms`, () => show()),
      margin: slider("plan-margin", "Margin: a loss that does not matter", range(0, 0.3, 0.01), data.margin, (v) => fixed(v, 2), () => show()),
    };
    function show() {
      const [cut, budget, margin] = [parts.cut.value(), parts.budget.value(), parts.margin.value()];
      const rows = survivors(data, cut, budget, margin);
      const order = { best: 0, "as good": 1, "best, too slow": 2, "not shown to be as good": 3, "too slow": 4 };
      rows.sort((a, b) => order[a.state] - order[b.state] || a.p95 - b.p95);
      const left = rows.filter((row) => order[row.state] < 2).length;
      said.textContent = choice(rows)
        ? `${left} of ${rows.length} systems survive; the fastest of them is ${choice(rows)}.`
        : "No system within this budget is shown to be as good as the best.";
      body.replaceChildren(
        ...rows.map((row) => {
          const numbers = [fixed(row.mean, 3), fixed(row.p95, 1), signed(row.difference), signed(row.bound)];
          const name = element("th", { scope: "row", class: "le-text" }, row.system);
          const state = element("td", { class: "le-text" }, element("span", { class: "le-state" }, row.state));
          return element("tr", {}, name, ...numbers.map((text) => element("td", { class: "le-num" }, text)), state);
        }),
      );
    }
    const scroll = element("div", { class: "le-scroll", role: "group", tabindex: 0, "aria-label": "Systems, scrolls sideways when wide" }, table);
    box.append(...Object.values(parts).map((part) => part.box), said, scroll);
    show();
  }

  const start = () => {
    const source = document.querySelector("script.le-plan-data");
    if (!source) return;
    const data = JSON.parse(source.textContent);
    document.querySelectorAll(".le-plan").forEach((section) => {
      ({ plan, choose })[section.dataset.plan](section.querySelector(".le-plan-live"), data);
      section.dataset.wrong = wrongExamples(data); /* what a test reads */
    });
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
