package layout
import ("testing";"fmt";"slices";"maps")
func TestDump(t *testing.T){
 c:=readErrorCodes(t)
 for set,m:=range c.statuses{ for _,k:=range slices.Sorted(maps.Keys(m)){ fmt.Println(set,k,slices.Sorted(maps.Keys(m[k])))}}
 for _,u:=range slices.Sorted(maps.Keys(c.unknown)){fmt.Println("UNKNOWN",u)}
 for _,w:=range slices.Sorted(maps.Keys(c.wrappers)){fmt.Println("W",w,len(c.wrappers[w]))}
}
