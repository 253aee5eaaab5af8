package memory

import "github.com/holdfast-go/holdfast/engine"

// Kept is the number of resources in memory.
func (e *Engine) Kept() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.resources)
}

// KeptClients is the number of parties of which a resource keeps the client.
func (e *Engine) KeptClients(name engine.Resource) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.resources[name].clients)
}
