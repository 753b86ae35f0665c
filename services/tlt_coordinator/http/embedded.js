const timelines = [...document.querySelectorAll("canvas[data-timeline]")].map((canvas) => {
  const { timeline: found, options } = JSON.parse(document.getElementById(canvas.dataset.timeline).textContent);
  canvas.style.height = `${heightOf(found, options)}px`;
  return () => draw(canvas, found, options);
});
const swatches = [...document.querySelectorAll("canvas[data-state]")].map(
  (canvas) => () => drawBar(canvas, [[canvas.dataset.state, 1]]),
);
const bars = [...document.querySelectorAll("canvas[data-parts]")].map((canvas) => {
  const parts = JSON.parse(canvas.dataset.parts);
  return () => drawBar(canvas, parts);
});
const paint = () => [...timelines, ...swatches, ...bars].forEach((one) => one());
addEventListener("resize", paint);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
paint();
