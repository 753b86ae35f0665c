"""A request's penalties, as passed in SGLang's custom parameters."""

from dataclasses import dataclass

from tlt_common.domain.prompt import SamplingParams


@dataclass(frozen=True, slots=True, kw_only=True)
class Penalty:
    """The penalties of one request."""

    frequency: float = 0.0
    presence: float = 0.0
    repetition: float = 1.0
    min_tokens: int = 0

    @classmethod
    def of(cls, sampling: SamplingParams) -> "Penalty":
        """Return the penalties in a request's sampling parameters."""
        return cls(
            frequency=sampling.frequency_penalty,
            presence=sampling.presence_penalty,
            repetition=sampling.repetition_penalty,
            min_tokens=sampling.min_new_tokens,
        )

    def packed(self) -> list[float] | None:
        """Encode for SGLang's custom parameters; None if no penalty applies."""
        return None if self == Penalty() else [self.frequency, self.presence, self.repetition, self.min_tokens]
