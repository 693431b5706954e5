"use strict";
(() => {
  const form = document.getElementById("filters");
  const find = document.getElementById("find");
  const dataset = document.getElementById("dataset");
  const step = document.getElementById("step");
  const shown = document.getElementById("shown");
  const sections = [...document.querySelectorAll("section.dataset")];
  const rows = [...document.querySelectorAll("table.entries tbody tr")];
  const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
  const apply = () => {
    const wanted = find.value.trim().toLowerCase();
    for (const section of sections) section.hidden = dataset.value !== "" && section.id !== dataset.value;
    let count = 0;
    for (const row of rows) {
      const fits = texts.get(row).includes(wanted) && (step.value === "" || row.dataset.step === step.value);
      row.hidden = !fits;
      if (fits && !row.closest("section").hidden) count += 1;
    }
    shown.textContent = `${count.toLocaleString("en")} of ${rows.length.toLocaleString("en")} listed entries`;
  };
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(apply));
  form.hidden = false;
  apply();
})();
