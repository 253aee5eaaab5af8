package mysql_test

import (
	"context"
	"database/sql"
	"fmt"

	_ "github.com/go-sql-driver/mysql"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/mysql"
)

// It needs a server, so it is compiled and not run.
func ExampleNew() {
	ctx := context.Background()
	db, err := sql.Open("mysql", "user:password@tcp(localhost:3306)/app")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	if err := mysql.Migrate(ctx, db); err != nil {
		fmt.Println(err)
		return
	}
	client, err := holdfast.New(mysql.New(db))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close() // before db

	lease, err := client.Mutex("stock:42").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release(ctx)
	fmt.Println("held with fencing token", lease.Token())
}
