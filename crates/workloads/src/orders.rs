//! TPC-H ORDERS rows, made on the spot by `tpchgen`. Figures from them are "TPC-H-derived", not TPC-H results.

use tpchgen::generators::{Order, OrderGenerator};

/// An order: its key, and the rest of the row in dbgen's text form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderRow {
    /// `o_orderkey`: distinct, growing, with gaps (8 of every 32 numbers are used).
    pub key: u64,
    /// `o_custkey|o_orderstatus|o_totalprice|o_orderdate|o_orderpriority|o_clerk|o_shippriority|o_comment`.
    pub row: String,
}

/// The orders of `scale` (1.5 million at 1.0), part `part` of `parts`, in key order. Parts can be made in parallel.
///
/// Panics unless `1 <= part <= parts`.
pub fn orders(scale: f64, part: u32, parts: u32) -> impl Iterator<Item = OrderRow> {
    assert!(1 <= part && part <= parts, "part {part} of {parts}");
    OrderGenerator::new(scale, part as i32, parts as i32).iter().map(|order| OrderRow::from(&order))
}

/// How many rows [`orders`] gives.
pub fn count(scale: f64, part: u32, parts: u32) -> u64 {
    OrderGenerator::calculate_row_count(scale, part as i32, parts as i32) as u64
}

impl From<&Order<'_>> for OrderRow {
    fn from(order: &Order<'_>) -> Self {
        let Order { o_custkey, o_orderstatus, o_totalprice, o_orderdate, .. } = order;
        let Order { o_orderpriority, o_clerk, o_shippriority, o_comment, .. } = order;
        Self {
            key: order.o_orderkey as u64,
            row: format!(
                "{o_custkey}|{o_orderstatus}|{o_totalprice}|{o_orderdate}|{o_orderpriority}|{o_clerk}|\
                 {o_shippriority}|{o_comment}"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first row that TPC-H's own dbgen prints (at scale 1; here it is cut out of a part).
    #[test]
    fn the_first_order_is_dbgens() {
        let first = orders(1.0, 1, 1000).next().unwrap();
        assert_eq!(first.key, 1);
        assert_eq!(
            first.row,
            "36901|O|173665.47|1996-01-02|5-LOW|Clerk#000000951|0|nstructions sleep furiously among "
        );
    }

    #[test]
    fn parts_add_up_to_the_whole_in_key_order() {
        let whole: Vec<_> = orders(0.001, 1, 1).collect();
        let parts: Vec<_> = (1..=4).flat_map(|part| orders(0.001, part, 4)).collect();
        assert_eq!(whole.len() as u64, count(0.001, 1, 1));
        assert_eq!(whole, parts);
        assert!(whole.is_sorted_by(|a, b| a.key < b.key));
    }
}
