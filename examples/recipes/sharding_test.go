//go:build unix

package recipes

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
	"gorm.io/sharding"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/layouts"
)

const shards = 16

// sharded has the epoch and the shifts of PKSnowflake, which keeps the shard alone in 10 bits.
var sharded = snowflake.Layout{Epoch: layouts.Twitter().Epoch, Unit: time.Millisecond,
	TimeBits: 41, DatacenterBits: 4, WorkerBits: 6, SequenceBits: 12} // 16 shards, 64 processes

// Receipt is a row of the tables receipts_00 to receipts_15.
type Receipt struct {
	ID     snowflake.ID `gorm:"primaryKey;autoIncrement:false;check:id > 0"`
	UserID int64
}

// receiptIDs is the generator of the process. Its layout is sharded.
var receiptIDs *snowflake.Generator

// BeforeCreate gives the row an ID with its shard.
func (r *Receipt) BeforeCreate(*gorm.DB) error {
	id, err := receiptIDs.NextID()
	if err != nil {
		return err
	}
	p := sharded.Decode(id)
	p.Datacenter = int(r.UserID % shards)
	r.ID, err = sharded.Encode(p)
	return err
}

// suffix returns the suffix of the table in which id is. PKSnowflake's IDs have the shard, 0 to 15,
// where others have shard<<6 + worker. So workers are numbered from 16 on.
func suffix(id int64) string {
	shard := layouts.Bwmarrin().Decode(snowflake.ID(id)).Worker
	if shard >= shards {
		shard = sharded.Decode(snowflake.ID(id)).Datacenter
	}
	return fmt.Sprintf("_%02d", shard)
}

func inShards() gorm.Plugin {
	return sharding.Register(sharding.Config{
		ShardingKey: "user_id", NumberOfShards: shards,
		PrimaryKeyGenerator:           sharding.PKCustom,
		PrimaryKeyGeneratorFn:         func(int64) int64 { return 0 }, // BeforeCreate has set it
		ShardingAlgorithmByPrimaryKey: suffix,
	}, Receipt{})
}

func testSharding(t *testing.T, server func() gorm.Dialector) {
	open := func(plugin gorm.Plugin) *gorm.DB {
		db, err := gorm.Open(server(), &gorm.Config{Logger: logger.Discard})
		require.NoError(t, err)
		conn, err := db.DB()
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		require.NoError(t, db.Use(plugin))
		return db
	}
	// The plugin's own IDs, as a process that is not replaced yet makes them.
	before := open(sharding.Register(sharding.Config{
		ShardingKey: "user_id", NumberOfShards: shards, PrimaryKeyGenerator: sharding.PKSnowflake}, Receipt{}))
	require.NoError(t, before.AutoMigrate(&Receipt{}))
	defer before.Migrator().DropTable(&Receipt{})
	old := func(user int64) (r Receipt) {
		assert.NoError(t, before.Exec(`INSERT INTO receipts(user_id) VALUES (?)`, user).Error)
		assert.NoError(t, before.Where("user_id = ?", user).First(&r).Error)
		return r
	}
	// Two parts of a program each make a generator and a plugin. The generator is the same one.
	makers := []func(user int64) Receipt{old}
	for range 2 {
		g, err := snowflake.New(21, &snowflake.Options{Layout: sharded})
		require.NoError(t, err)
		require.True(t, receiptIDs == nil || g == receiptIDs, "another generator would repeat the IDs")
		receiptIDs = g
		db := open(inShards())
		makers = append(makers, func(user int64) Receipt {
			r := Receipt{UserID: user}
			assert.NoError(t, db.Create(&r).Error)
			return r
		})
	}
	const each = 60 // users, of its own, because old finds a row by its user
	created := make([][]Receipt, len(makers))
	var running sync.WaitGroup
	for i, create := range makers {
		running.Go(func() {
			for user := range int64(each) {
				created[i] = append(created[i], create(user*int64(len(makers))+int64(i)))
			}
		})
	}
	running.Wait()

	db, seen := open(inShards()), map[snowflake.ID]bool{}
	for i, rows := range created {
		for _, r := range rows {
			require.False(t, seen[r.ID], "%d came twice", r.ID)
			seen[r.ID] = true
			var found Receipt
			require.NoError(t, db.Where("id = ?", int64(r.ID)).First(&found).Error) // in the table that the ID names
			require.Equal(t, r, found)
			if p := sharded.Decode(r.ID); i > 0 {
				require.Equal(t, []int{int(r.UserID % shards), 21}, []int{p.Datacenter, p.Worker})
			}
		}
	}
	one := created[1][0].ID
	assert.Error(t, db.Where("id = ?", one).First(&Receipt{}).Error, "the plugin wants an int64")
	require.NoError(t, db.Where("id = ?", int64(one)).Delete(&Receipt{}).Error)
	assert.ErrorIs(t, db.Where("id = ?", int64(one)).First(&Receipt{}).Error, gorm.ErrRecordNotFound)
}
