//! The promises that every adapter keeps, as cases that run over it: one case, one promise, a name that states it.
//!
//! A case is a plain `pub async fn name(port: &dyn Port)`. It makes random ids and never assumes an empty store. Every case is listed
//! once, below: a case that is not listed is dead code, which the compiler reports. An adapter's test is one line a port:
//!
//! ```ignore
//! dunlin_contract::directory!(open_directory().await);
//! ```
//!
//! It makes one `#[tokio::test]` a case, in a module named after the port. The expression is evaluated anew for each case, in the scope
//! of the line; what it gives is dereferenced to the port (a `Box`, an `Arc`, or a guard that also holds a temporary folder).

mod blob_store;
mod directory;
mod ephemeral;
pub mod ids;
mod session_bus;

/// Makes each port's macro and opens its cases to it, from one list.
///
/// The `$` in front is what the macros that it makes write for themselves: a macro can't spell it otherwise.
macro_rules! contract {
    ($dollar:tt $($port:ident: [$($case:ident),* $(,)?])*) => {
        #[doc(hidden)]
        pub mod listed {
            $(pub mod $port {
                pub use crate::$port::{$($case),*};
            })*
        }

        $(
            #[doc = concat!("Runs every case of the port `", stringify!($port), "` over what the expression makes.")]
            #[macro_export]
            macro_rules! $port {
                ($dollar make:expr) => {
                    mod $port {
                        #[allow(unused_imports, reason = "an expression may need nothing of its scope")]
                        use super::*;

                        $(
                            #[tokio::test]
                            async fn $case() {
                                let made = $dollar make;
                                $dollar crate::listed::$port::$case(&*made).await;
                            }
                        )*
                    }
                };
            }
        )*
    };
}

contract! { $
    directory: [
        a_new_user_reads_back,
        a_user_without_details_exists,
        an_absent_user_is_none,
        ids_that_differ_in_case_are_two_users,
        a_name_keeps_every_character,
        a_name_is_set_kept_and_cleared,
        a_change_moves_updated_at_and_nothing_else_does,
        updated_at_never_goes_backwards,
        two_upserts_at_once_make_one_user,
        exist_answers_in_the_order_of_the_question,
        a_server_key_reads_back,
        an_absent_server_key_is_none,
        creating_a_server_key_again_changes_nothing,
        another_server_key_under_the_same_id_conflicts,
        a_revoked_server_key_stays_with_its_first_time,
        creating_again_does_not_revive_a_revoked_server_key,
        revoking_an_absent_server_key_is_none,
        pages_of_server_keys_meet,
        nobodys_tokens_are_void_at_first,
        revoking_tokens_never_gives_back,
        revoking_tokens_needs_no_user_and_makes_none,
    ]
    ephemeral: [
        a_send_is_recalled,
        what_was_not_remembered_is_not_recalled,
        every_part_of_the_key_counts,
        the_later_row_stands,
        a_send_is_forgotten_after_its_time,
        remembering_again_starts_the_time_again,
    ]
    session_bus: [
        frames_arrive_in_order_with_their_notices,
        an_empty_frame_arrives,
        frames_reach_their_node_only,
        each_node_has_numbers_of_its_own,
        nobody_listening_is_no_error_and_counts,
        a_second_listener_takes_over,
        whatever_is_lost_leaves_a_gap,
    ]
    blob_store: [
        a_blob_reads_back,
        an_empty_blob_is_a_blob,
        an_absent_blob_is_none,
        a_range_gives_its_bytes,
        chunks_are_neither_empty_nor_too_large,
        putting_again_changes_nothing,
        other_bytes_under_the_same_key_conflict,
        of_two_puts_at_once_one_stands,
        a_blob_of_the_largest_size_is_stored,
        a_blob_that_is_too_large_leaves_nothing,
        a_source_that_fails_leaves_nothing,
        a_deleted_blob_is_gone,
        deleting_an_absent_blob_is_no_error,
    ]
}
