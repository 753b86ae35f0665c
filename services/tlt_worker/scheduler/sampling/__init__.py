"""How tokens are sampled, proposed and accepted, and the hooks that install this in SGLang."""
