// The json program shows what happens to an ID between Go and a browser.
//
// JavaScript reads a JSON number as a float64, which holds integers exactly only up
// to 2^53. So an ID is a string in JSON. If it has to be a number, use JSSafeLayout,
// whose IDs stay below 2^53.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/seed-5394e6b1/snowflake"
)

type order struct {
	ID snowflake.ID `json:"id"` // needs no ",string"
}

func main() {
	for _, l := range []snowflake.Layout{snowflake.DefaultLayout(), snowflake.JSSafeLayout()} {
		if err := show(l); err != nil {
			log.Fatal(err)
		}
	}
}

// show sends two consecutive IDs to the browser and back.
func show(l snowflake.Layout) error {
	g, err := snowflake.New(7, &snowflake.Options{Layout: l})
	if err != nil {
		return err
	}
	var ids [2]snowflake.ID
	if _, err := g.Fill(context.Background(), ids[:]); err != nil {
		return err
	}
	fmt.Println("layout:", l)
	for _, id := range ids {
		text, err := json.Marshal(order{id})
		if err != nil {
			return err
		}
		number, err := throughJavaScript(id)
		if err != nil {
			return err
		}
		var fromString, fromNumber order
		if err := json.Unmarshal(text, &fromString); err != nil {
			return err
		}
		if err := json.Unmarshal(fmt.Appendf(nil, `{"id":%s}`, number), &fromNumber); err != nil {
			return err
		}
		fmt.Printf("  %v as a string: %s, back as %v\n", id, text, fromString.ID)
		fmt.Printf("  %v as a number: back as %v, the same: %v\n", id, fromNumber.ID, fromNumber.ID == id)
	}
	return nil
}

// throughJavaScript does as JSON.stringify(JSON.parse(id)) does.
func throughJavaScript(id snowflake.ID) ([]byte, error) {
	var number any // will be a float64
	if err := json.Unmarshal([]byte(id.String()), &number); err != nil {
		return nil, err
	}
	return json.Marshal(number)
}
