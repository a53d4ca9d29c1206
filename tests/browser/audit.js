// What a person sees of the page, measured; returns plain data. Called by test_report_in_browser.py.
const seen = (element) => element.checkVisibility({ checkVisibilityCSS: true, contentVisibilityAuto: true });
const hiddenForReaders = (element) => {
  const style = getComputedStyle(element);
  return style.position === "absolute" && (style.clipPath !== "none" || parseFloat(style.left) < -1000);
};
const onScreen = (element) => {
  for (let each = element; each; each = each.parentElement) if (hiddenForReaders(each)) return false;
  return seen(element);
};
const channel = (value) => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
const luminance = ([red, green, blue]) => 0.2126 * channel(red) + 0.7152 * channel(green) + 0.0722 * channel(blue);
const parsed = (color) => (color.match(/[\d.]+/g) || []).map(Number);
const opaque = (color) => { const parts = parsed(color); return parts.length === 3 || parts[3] === 1; };
const contrast = (a, b) => {
  const [light, dark] = [luminance(parsed(a)), luminance(parsed(b))].sort((x, y) => y - x);
  return (light + 0.05) / (dark + 0.05);
};
const background = (element) => {
  for (let each = element; each; each = each.parentElement) {
    const color = getComputedStyle(each).backgroundColor;
    if (parsed(color).length >= 3 && opaque(color)) return color;
  }
  return "rgb(255, 255, 255)";
};
// Under a text of a drawing lies the last box painted before it; plots have texts on the page alone.
const under = (text, svg) => {
  const own = text.getBoundingClientRect();
  const x = own.x + own.width / 2, y = own.y + own.height / 2;
  let found = background(svg);
  for (const box of svg.querySelectorAll("rect")) {
    if (box.closest("defs, pattern, clipPath")) continue;
    const rect = box.getBoundingClientRect();
    if (rect.x <= x && x <= rect.right && rect.y <= y && y <= rect.bottom) found = getComputedStyle(box).fill;
  }
  return found;
};

const texts = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const parent = walker.currentNode.parentElement;
  if (!walker.currentNode.data.trim() || !onScreen(parent) || parent.closest("title, desc, style")) continue;
  const svg = parent.closest("svg"), style = getComputedStyle(parent);
  const scale = svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;
  texts.push({
    text: walker.currentNode.data.trim().slice(0, 60),
    size: parseFloat(style.fontSize) * scale,
    contrast: svg ? contrast(style.fill, under(parent, svg)) : contrast(style.color, background(parent)),
  });
}

const charts = [...document.querySelectorAll("svg.chart")].map((svg) => {
  const box = svg.getBoundingClientRect();
  const labels = [...svg.querySelectorAll("text")].map((each) => [each.textContent, each.getBoundingClientRect()]);
  const cut = labels.filter(([, each]) =>
    each.left < box.left - 1 || each.right > box.right + 1 || each.top < box.top - 1 || each.bottom > box.bottom + 1);
  const overlaps = [];
  labels.forEach(([one, a], index) => labels.slice(index + 1).forEach(([other, b]) => {
    const width = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const height = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (width > 2 && height > 4) overlaps.push(`${one} | ${other}`);
  }));
  return {
    id: svg.id, visible: seen(svg), width: box.width, height: box.height,
    paths: svg.querySelectorAll("path").length, labels: labels.length,
    cut: seen(svg) ? cut.map(([text]) => text) : [], overlaps: seen(svg) ? overlaps : [],
  };
});

const beyond = [...document.body.querySelectorAll("*")]
  .filter((each) => onScreen(each) && !each.closest("svg") && each.getBoundingClientRect().right > innerWidth + 1)
  .map((each) => `${each.tagName} ${each.textContent.trim().slice(0, 40)}`);

return { texts, charts, beyond, scrollWidth: document.documentElement.scrollWidth, width: innerWidth };
