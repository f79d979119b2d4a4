package layouts_test

import (
	"fmt"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/layouts"
)

func ExampleTwitter() {
	tweet, err := snowflake.ParseID("1541815603606036480")
	fmt.Println(layouts.Twitter().Decode(tweet), err)
	// Output: time=2022-06-28T16:07:40.105Z datacenter=11 worker=26 sequence=0 <nil>
}

// A table has IDs of Sonyflake, and the new IDs must follow them.
func ExampleSonyflake() {
	const last = 645219421736205339 // SELECT max(id)
	gen, err := snowflake.New(7, &snowflake.Options{Layout: layouts.Sonyflake(), After: last})
	if err != nil {
		fmt.Println(err)
		return
	}
	id, err := gen.NextID()
	fmt.Println(id > last, layouts.Sonyflake().Decode(id).Worker, err)
	// Output: true 7 <nil>
}

func ExampleByName() {
	k, ok := layouts.ByName("leaf")
	fmt.Println(k.Name, ok)
	fmt.Println(k.About)
	fmt.Println(k.Layout)
	// Output:
	// bwmarrin true
	// the default of bwmarrin/snowflake (Go), and of Meituan's Leaf (Java)
	// 41/10/12@2010-11-04T01:42:54.657Z,1ms
}

// Which of the layouts have these IDs?
func ExampleIdentify() {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	ids := []snowflake.ID{314948827708654619, 314949411387014171, 314949411387079707}
	for _, m := range layouts.Identify(ids, now).Matches[:1] {
		fmt.Println(m.Name, m.Layout)
	}
	// Output: sonyflake 39/16/8@2014-09-01,10ms,worker-last
}
