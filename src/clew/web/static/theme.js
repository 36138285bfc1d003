// Runs before the page is drawn: the chosen theme without a flash of the other one. Nothing else is kept in the browser.
document.documentElement.classList.add("js");
try {
  const theme = localStorage.getItem("clew-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch { /* private window */ }
