"use strict";
// The tables of the page: filter, sort by a column, and under each nest its blocks. Uses what page.js has read.

function nestBlocks(index) {
  const row = document.createElement("tr"), cell = element(row, "td"), table = element(cell, "table");
  row.className = "blocks";
  cell.colSpan = 11;
  const heading = element(table, "tr");
  for (const text of ["operand", "tensor", "home", "tiles are", "largest box", "bytes of a buffer", "at L1 addresses", "staged in L2",
    "bytes that pass", "why more than once"]) element(heading, "th", text);
  for (const block of blocks.filter(block => block.nest === index)) {
    const line = element(table, "tr"), does = [block.loaded ? "loaded" : "", block.stored ? "stored" : ""].filter(Boolean).join(", ");
    const stage = block.stage === "none" ? "" : `${block.stage}, ${number(block.stageBytes)} at ${block.stageSlots.map(number).join("; ")}`;
    for (const text of [block.operand, block.value, block.home, does, block.box, number(block.bytes), block.slots.map(number).join("; "),
      stage, number(block.moved), block.reasons]) element(line, "td", text);
  }
  return row;
}

function tables() {
  for (const input of document.querySelectorAll("input[data-table]")) input.addEventListener("input", () => {
    const wanted = input.value.toLowerCase();
    for (const row of document.querySelectorAll(`#${input.dataset.table} > tbody > tr:not(.blocks)`))
      row.hidden = !row.textContent.toLowerCase().includes(wanted);
  });
  document.querySelector("#nests > tbody").addEventListener("click", event => {
    if (event.target.tagName !== "BUTTON") return;
    const row = event.target.closest("tr"), open = event.target.textContent === "+";
    event.target.textContent = open ? "\u2212" : "+";
    if (open) row.after(nestBlocks(Number(row.cells[1].textContent)));
    else if (row.nextSibling && row.nextSibling.className === "blocks") row.nextSibling.remove();
  });
  for (const heading of document.querySelectorAll(".tall th")) heading.addEventListener("click", () => {
    const body = heading.closest("table").tBodies[0], column = heading.cellIndex, key = row => row.cells[column].textContent;
    const numeric = heading.className === "n", value = row => Number(key(row).replace(/,/g, "")) || 0;
    for (const row of body.querySelectorAll("tr.blocks")) row.remove();
    for (const button of body.querySelectorAll("button")) button.textContent = "+";
    const turn = heading.dataset.order === "1" ? -1 : 1;
    heading.dataset.order = String(turn);
    const sorted = [...body.rows].sort((a, b) => turn * (numeric ? value(b) - value(a) : key(a).localeCompare(key(b), "en")));
    body.append(...sorted);
  });
}

tables();
