/** Steps as a strip above a timeline. */

/** Returns spans for `draw`; a step that still runs ends now. */
export function spansOf(steps, now_s) {
  return steps.map((step) => ({
    from_unix_s: step.began_unix_s,
    to_unix_s: step.ended_unix_s ?? now_s,
    label: `step ${step.number}`,
    shade: "line",
  }));
}
