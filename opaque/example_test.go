package opaque_test

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/opaque"
)

// In a program, the key comes from its secrets. To make a key, run "openssl rand -hex 32", and pass
// its output to hex.DecodeString.
var key = []byte("32 bytes, random in real life...")

func Example() {
	orders, err := opaque.New(key, "order")
	if err != nil {
		panic(err)
	}
	text := orders.Encode(117469438034313216)
	fmt.Println(text)
	fmt.Println(orders.Decode(text))

	users, err := opaque.New(key, "user")
	if err != nil {
		panic(err)
	}
	_, err = users.Decode(text)
	fmt.Println(errors.Is(err, snowflake.ErrInvalidID), err)
	// Output:
	// 6jBeLMBn6gylueyOncP6gT
	// 117469438034313216 <nil>
	// true snowflake: invalid ID: the opaque text was not written with these keys and this purpose
}

// In JSON an ID is a field of type string.
func ExampleCodec_Encode() {
	orders, err := opaque.New(key, "order")
	if err != nil {
		panic(err)
	}
	type Order struct {
		ID string `json:"id"`
	}
	b, err := json.Marshal(Order{orders.Encode(117469438034313216)})
	fmt.Println(string(b), err)

	var got Order
	if err := json.Unmarshal(b, &got); err != nil {
		panic(err)
	}
	fmt.Println(orders.Decode(got.ID))
	// Output:
	// {"id":"6jBeLMBn6gylueyOncP6gT"} <nil>
	// 117469438034313216 <nil>
}

// For a bigint column or an API that wants an integer.
func ExampleCodec_EncodeInt() {
	orders, err := opaque.New(key, "order")
	if err != nil {
		panic(err)
	}
	for id := snowflake.ID(117469438034313216); id < 117469438034313219; id++ {
		fmt.Println(orders.EncodeInt(id))
	}
	fmt.Println(orders.DecodeInt(3140247255447148216))
	// Output:
	// 3140247255447148216
	// 445340858157958149
	// 4156065009196221936
	// 117469438034313216 <nil>
}

func ExampleCodec_WithPrefix() {
	orders, err := opaque.New(key, "order")
	if err != nil {
		panic(err)
	}
	public, err := orders.WithPrefix("order")
	if err != nil {
		panic(err)
	}
	text := public.Encode(117469438034313216)
	fmt.Println(text)
	fmt.Println(public.Decode(text))
	// Output:
	// order_6jBeLMBn6gylueyOncP6gT
	// 117469438034313216 <nil>
}
