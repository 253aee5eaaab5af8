package subject

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/engine/quorum"
)

// HoldfastQuorum is Holdfast on a quorum of three Redis. It has the points of Holdfast,
// and those of each node, such as "node2.release.start".
func HoldfastQuorum() Subject {
	return holdfastSubject("holdfast-quorum", "Holdfast on a majority of three Redis", 3, func(s Setup) (engine.Engine, error) {
		var nodes []engine.Engine
		for i, node := range s.Nodes {
			nodes = append(nodes, pointed{goredis.New(node), s.below(fmt.Sprintf("node%d.", i+1))})
		}
		return quorum.New(nodes...), nil
	})
}

// below adds a prefix to the points of a part of the client.
func (s Setup) below(prefix string) Setup {
	outer := s.Point
	if outer != nil {
		s.Point = func(ctx context.Context, step string) error { return outer(ctx, prefix+step) }
	}
	return s
}
