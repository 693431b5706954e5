"use strict";
(() => {
  const form = document.getElementById("filters");
  const find = document.getElementById("find");
  const dataset = document.getElementById("dataset");
  const step = document.getElementById("step");
  const shown = document.getElementById("shown");
  const sections = [...document.querySelectorAll("section.dataset")];
  const blocks = [...document.querySelectorAll("details.block")].map((block) => (
    {block, section: block.closest("section"), first: block.open, rows: [...block.querySelectorAll("tbody tr")], texts: null}
  ));
  const total = blocks.reduce((sum, one) => sum + one.rows.length, 0);
  const most = 20;  // blocks that a search opens: each of them has to be laid out
  const fit = (one, wanted) => {
    if (wanted !== "" && one.texts === null) one.texts = one.rows.map((row) => row.textContent.toLowerCase());
    let hits = 0;
    one.rows.forEach((row, place) => {
      const fits = (wanted === "" || one.texts[place].includes(wanted)) && (step.value === "" || row.dataset.step === step.value);
      if (row.hidden === fits) row.hidden = !fits;
      if (fits) hits += 1;
    });
    return hits;
  };
  const apply = () => {
    const wanted = find.value.trim().toLowerCase(), filtering = wanted !== "" || step.value !== "";
    for (const section of sections) section.hidden = dataset.value !== "" && section.id !== dataset.value;
    let count = 0, opened = 0;
    for (const one of blocks) {
      const hits = fit(one, wanted);
      one.block.hidden = hits === 0;
      one.block.open = filtering ? hits > 0 && !one.section.hidden && opened++ < most : one.first;
      if (filtering) one.block.dataset.fits = `${hits.toLocaleString("en")} of ${one.rows.length}`;
      else delete one.block.dataset.fits;
      if (!one.section.hidden) count += hits;
    }
    shown.textContent = `${count.toLocaleString("en")} of ${total.toLocaleString("en")} listed entries`;
  };
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(apply));
  window.addEventListener("beforeprint", () => { for (const one of blocks) one.block.open = true; });
  window.addEventListener("afterprint", apply);
  const aim = () => {  // a citation opens the statement that it leads to
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target instanceof HTMLDetailsElement) target.open = true;
  };
  window.addEventListener("hashchange", aim);
  aim();
  form.hidden = false;
  apply();
})();
