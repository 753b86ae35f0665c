"""The rollout endpoint over HTTP, for trainers that speak SGLang's or OpenAI's protocol."""
