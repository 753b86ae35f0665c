const timelines = [...document.querySelectorAll("canvas[data-timeline]")].map((canvas) => {
  const { timeline: found, options } = JSON.parse(document.getElementById(canvas.dataset.timeline).textContent);
  canvas.style.height = `${heightOf(found, options)}px`;
  return () => draw(canvas, found, options);
});
const swatches = [...document.querySelectorAll("canvas[data-state]")].map(
  (canvas) => () => drawBar(canvas, [[canvas.dataset.state, 1]]),
);
const paint = () => [...timelines, ...swatches].forEach((one) => one());
addEventListener("resize", paint);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
paint();
