// The program that the test of ent runs against PostgreSQL, with code generated into ent.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"

	base "entgo.io/ent"
	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/examples/recipes/testdata/ent/ent"
	"github.com/seed-5394e6b1/snowflake/examples/recipes/testdata/ent/ent/order"
	"github.com/seed-5394e6b1/snowflake/follow"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// FillIDs gives each new row an ID of gen.
func FillIDs(gen *snowflake.Generator) ent.Hook {
	return func(next ent.Mutator) ent.Mutator {
		return ent.MutateFunc(func(ctx context.Context, m ent.Mutation) (ent.Value, error) {
			row, ok := m.(interface {
				ID() (snowflake.ID, bool)
				SetID(snowflake.ID)
			})
			if ok && m.Op().Is(base.OpCreate) {
				if _, set := row.ID(); !set {
					id, err := gen.NextIDContext(ctx)
					if err != nil {
						return nil, err
					}
					row.SetID(id)
				}
			}
			return next.Mutate(ctx, m)
		})
	}
}

// createOrder inserts an order in a transaction of follow.Writer.
func createOrder(ctx context.Context, tx *follow.Tx, item string) error {
	client := ent.NewClient(ent.Driver(entsql.NewDriver(dialect.Postgres, entsql.Conn{ExecQuerier: tx.Tx})))
	id, err := tx.NextID()
	if err != nil {
		return err
	}
	return client.Order.Create().SetID(id).SetItem(item).Exec(ctx)
}

func main() {
	ctx := context.Background()
	db, err := sql.Open("pgx", os.Args[1])
	check(err)
	client := ent.NewClient(ent.Driver(entsql.OpenDB(dialect.Postgres, db)))
	defer client.Close()
	check(client.Schema.Create(ctx))
	gen, err := snowflake.New(7, nil)
	check(err)

	if _, err := client.Order.Create().SetItem("forgotten").Save(ctx); err == nil {
		log.Fatal("a row without an ID was stored")
	}
	if _, err := client.Order.Create().SetItem("forgotten").SetID(0).Save(ctx); err == nil {
		log.Fatal("a row with an ID of 0 was stored")
	}
	client.Use(FillIDs(gen))
	a := client.Order.Create().SetItem("a hat").SaveX(ctx)
	b := client.Order.Create().SetItem("a coat").SetRefundOf(a.ID).SaveX(ctx)
	many := client.Order.CreateBulk(client.Order.Create().SetItem("x"), client.Order.Create().SetItem("y")).SaveX(ctx)
	found := client.Order.Query().Where(order.IDIn(a.ID, b.ID)).Order(order.ByID()).AllX(ctx)
	fmt.Println(len(found) == 2, *found[1].RefundOf == a.ID, a.ID > 0, a.ID < b.ID, b.ID < many[0].ID, many[0].ID < many[1].ID)

	// Under the fence of package follow, a transaction that fails leaves nothing.
	fence, err := follow.NewFence(follow.PostgreSQL, "orders_fence")
	check(err)
	check(fence.Create(ctx, db))
	l, err := lease.Acquire(ctx, lease.File(os.Args[2]), &lease.Options{NewStore: true})
	check(err)
	defer l.Release(ctx)
	leased, err := snowflake.NewLeased(l, nil)
	check(err)
	w := follow.NewWriter(db, fence, l, leased)
	check(w.Do(ctx, func(tx *follow.Tx) error { return createOrder(ctx, tx, "followed") }))
	failed := w.Do(ctx, func(tx *follow.Tx) error {
		check(createOrder(ctx, tx, "followed"))
		return errors.New("failed")
	})
	fmt.Println(client.Order.Query().Where(order.Item("followed")).CountX(ctx), failed)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
