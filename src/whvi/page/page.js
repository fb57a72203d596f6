// Notes are printed, also by browsers that do not show a closed <details> by the rule in the style sheet.
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach(d => { d.open = true; }));
