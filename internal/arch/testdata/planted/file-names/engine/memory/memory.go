package memory

type Engine struct{}
