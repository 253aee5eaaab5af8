package history

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Save writes a result, which has a history, as a replay file, and makes its folder.
func Save(file string, result any) error {
	text, err := json.MarshalIndent(result, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// Load reads a replay file.
func Load[T any](file string) (result T, err error) {
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &result)
	}
	if err != nil {
		return *new(T), fmt.Errorf("replay file %s: %w", file, err)
	}
	return result, nil
}
