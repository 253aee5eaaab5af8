package subject

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/engine/quorum"
)

// HoldfastQuorum is Holdfast on a majority of three Redis. Beside the points of
// Holdfast it has those of each node, such as "node2.release.start".
func HoldfastQuorum() Subject {
	return holdfastSubject("holdfast-quorum", "Holdfast on a majority of three Redis", 3, func(s Setup) (engine.Engine, error) {
		var nodes []engine.Engine
		for i, node := range s.Nodes {
			nodes = append(nodes, pointed{goredis.New(node), s.below(fmt.Sprintf("node%d.", i+1))})
		}
		return quorum.New(nodes...), nil
	})
}

// below gives the points of a part of the client a prefix.
func (s Setup) below(prefix string) Setup {
	outer := s.Point
	if outer != nil {
		s.Point = func(ctx context.Context, step string) error { return outer(ctx, prefix+step) }
	}
	return s
}
