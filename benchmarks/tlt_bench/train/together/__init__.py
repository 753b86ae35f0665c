"""Ways in which several trainers learn one drafter, compared: tokens and seconds to an accept length."""
