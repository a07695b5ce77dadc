"""Retrieved passages into the text of a prompt, cited and within a budget of tokens."""
