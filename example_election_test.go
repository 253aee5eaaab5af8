package holdfast_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// One node at a time runs the dispatcher. If it loses leadership, ctx is
// cancelled in time and another node takes over.
func ExampleElection_Lead() {
	client, err := holdfast.New(memory.New()) // in production: goredis.New(rdb)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	failed := errors.New("the queue is gone")
	err = client.Election("dispatcher").Lead(context.Background(), "10.0.0.7:8080", func(ctx context.Context) error {
		token := holdfast.LeaseFromContext(ctx).Token() // send it with every write
		fmt.Println("leading, with a fencing token:", token > 0)
		return failed // resigns and ends Lead; nil would resign and campaign again
	})
	fmt.Println(err)
	// Output:
	// leading, with a fencing token: true
	// the queue is gone
}

func ExampleElection_Campaign() {
	ctx := context.Background()
	client, err := holdfast.New(memory.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	election := client.Election("dispatcher")
	lease, err := election.Campaign(ctx, "10.0.0.7:8080") // waits until it leads
	if err != nil {
		fmt.Println(err)
		return
	}
	leader, err := election.Leader(ctx)
	fmt.Println(leader.Value, leader.Token == lease.Token(), err)

	_ = lease.Release(ctx) // resigns: the next candidate leads at once
	_, err = election.Leader(ctx)
	fmt.Println(errors.Is(err, holdfast.ErrNoLeader))
	// Output:
	// 10.0.0.7:8080 true <nil>
	// true
}

// Other services follow the leader.
func ExampleElection_Observe() {
	ctx := context.Background()
	client, err := holdfast.New(memory.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	election := client.Election("dispatcher")
	var lease *holdfast.Lease
	for leader, err := range election.Observe(ctx) {
		switch {
		case err != nil:
			fmt.Println(err)
		case leader.Token == 0:
			fmt.Println("nobody leads")
			if lease, err = election.Campaign(ctx, "10.0.0.7:8080"); err != nil {
				fmt.Println(err)
				return
			}
			continue
		default:
			fmt.Println(leader.Value, "leads")
		}
		break
	}
	fmt.Println(lease.Release(ctx))
	// Output:
	// nobody leads
	// 10.0.0.7:8080 leads
	// <nil>
}
