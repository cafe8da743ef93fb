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

#![allow(clippy::unwrap_used, reason = "a case that can't go on has failed")]

mod blob_store;
mod directory;
mod ephemeral;
mod event_log;
pub mod ids;
mod message_store;
mod model_store;
mod session_bus;

pub use model_store::{ModelStore, State, StoredMessage};

#[doc(hidden)]
pub use tokio;

/// A guard against hanging, nothing more.
#[doc(hidden)]
pub const HUNG: std::time::Duration = std::time::Duration::from_secs(180);

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
                                let case = $dollar crate::listed::$port::$case(&*made);
                                $dollar crate::tokio::time::timeout($dollar crate::HUNG, case).await.expect("a case comes to an end");
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
        metadata_is_set_kept_and_cleared,
        a_change_moves_updated_at_and_nothing_else_does,
        updated_at_never_goes_backwards,
        two_upserts_at_once_make_one_user,
        a_number_is_set_replaced_and_taken_away,
        a_number_that_is_set_again_is_no_change,
        a_number_is_one_users_at_most,
        a_number_that_was_given_up_is_anyones,
        of_two_users_at_once_one_gets_the_number,
        nobody_has_an_unknown_number_and_nobody_unknown_gets_one,
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
        a_task_is_its_holders_until_the_lease_ends,
        a_holder_renews_its_task,
        a_released_task_is_anyones_and_only_its_holder_releases_it,
        of_many_takers_at_once_one_holds_the_task,
        the_latest_copy_of_a_block_stands_whichever_came_first,
        pages_of_copied_blocks_meet,
        how_far_blocks_were_copied_never_goes_back,
        revocations_are_announced_to_whoever_listened_before,
    ]
    ephemeral: [
        a_send_is_recalled,
        what_was_not_remembered_is_not_recalled,
        every_part_of_the_key_counts,
        the_later_row_stands,
        a_send_is_forgotten_after_its_time,
        remembering_again_starts_the_time_again,
        an_answer_is_recalled_under_its_key_only,
        an_answer_is_forgotten_after_its_time,
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
        keys_may_be_short_or_long,
        an_empty_blob_is_a_blob,
        an_absent_blob_is_none,
        a_range_gives_its_bytes,
        chunks_are_neither_empty_nor_too_large,
        putting_again_changes_nothing,
        other_bytes_under_the_same_key_conflict,
        of_two_puts_at_once_one_stands,
        of_two_equal_puts_at_once_both_are_told_stored,
        a_blob_of_the_largest_size_is_stored,
        a_blob_that_is_too_large_leaves_nothing,
        a_source_that_fails_leaves_nothing,
        a_put_that_is_given_up_leaves_nothing,
        a_deleted_blob_is_gone,
        a_deleted_key_is_free_for_other_bytes,
        who_reads_a_blob_that_goes_never_gets_other_bytes,
        deleting_an_absent_blob_is_no_error,
    ]
    event_log: [
        what_was_appended_is_read_in_order,
        what_is_appended_belongs_to_the_present_life,
        an_event_comes_back_as_it_was,
        appends_called_in_order_are_read_in_order,
        a_tail_begins_where_it_was_told,
        a_tail_waits_for_what_comes_next,
        a_tail_that_was_let_go_loses_nothing,
        every_partition_is_shared_out,
        who_leaves_gives_back,
    ]
    message_store: [
        a_message_reads_back_whole,
        a_message_written_again_keeps_its_revision,
        the_later_revision_stands_whichever_came_first,
        a_deletion_takes_the_content_away_for_good,
        adjacent_pages_meet_under_writes,
        pages_cross_buckets,
        reactions_cross_buckets,
        a_range_leaves_out_both_ends,
        conversations_do_not_mix,
        the_index_finds_numbers_and_times,
        index_rows_of_one_time_all_exist,
        a_deleted_number_counts_once,
        a_hidden_message_is_hidden_from_its_user_only,
        the_later_reaction_stands_whichever_came_first,
        edits_are_kept_oldest_first,
        a_head_reads_back_and_an_older_one_never_replaces_it,
        all_heads_are_walked_once,
        marks_only_rise,
        marks_of_one_batch_merge,
        pages_of_members_meet,
        inbox_cells_merge_in_any_order,
        a_conversation_is_in_an_inbox_once,
        pages_of_an_inbox_meet_and_hold_nobody_elses,
        the_later_block_stands_for_both_users,
        pages_of_standings_meet,
        a_feed_is_ordered_by_time_over_months,
        what_is_known_comes_in_the_order_of_the_question,
        dedup_rows_are_known_as_of_an_event,
        blocks_are_known_as_of_an_event,
        an_outcome_reads_back,
        parked_keys_are_listed_once,
        parked_events_come_back_in_order_and_as_they_were,
        what_was_replayed_is_no_longer_parked_and_what_came_later_is,
        a_checkpoint_never_falls_and_moves_the_horizon,
    ]
}
